"""The gateway's part of ``docs/performance.md``, written from ``results/latest.json`` and ``results/memory.json``.

    python -m benchmarks.gateway.page

What stands between the two marks on that page is replaced; a test sees to it that page and result agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULT = Path(__file__).with_name("results") / "latest.json"
MEMORY = RESULT.with_name("memory.json")
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- gateway results: begin -->", "<!-- gateway results: end -->"

_LOADS = (
    *("json_c1", "json_c16", "json_c64", "json_open", "json_64k_c16"),
    *("sse_c1", "sse_c16", "sse_c64", "sse_open", "sse_paced_c16"),
)
"""Loads that the page shows; the others are in the file."""


def wanted(ratio: str) -> tuple[str, float]:
    """What a ratio is wanted to be: ``≤`` or ``≥``, and the bound."""
    if ratio.startswith("rps_"):
        return "≥", 1.0
    if ratio.startswith("added_p99_"):
        return "≤", 1.25
    if ratio == "sse_first_byte_c1_ms_above_haproxy":
        return "≤", 0.2
    if ratio == "added_p50_json_c1_litellm_over_outrider":
        return "≥", 20.0
    return "≤", 1.0


def held(ratio: str, value: float) -> bool:
    """Whether a ratio is as wanted."""
    sign, bound = wanted(ratio)
    return value <= bound if sign == "≤" else value >= bound


def section(data: Mapping[str, Any]) -> str:
    """The section, in Markdown."""
    machine = data["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    pinned = "the proxy on one core, engine and client on the other" if machine["pinned"] else "not pinned"
    load = ", ".join(f"{value:g}" for value in machine["load_average_before"])
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}; {pinned}.",
        f"Load average before the run: {load} (1, 5, 15 minutes). {versions}.",
        f"Medians of {data['rounds']} rounds of {data['seconds']:g} s, with the smallest and the largest.",
        "",
        "| ratio | wanted | median | smallest – largest | |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, value in data["ratios"].items():
        sign, bound = wanted(name)
        least, most = data["ratio_spread"][name]
        verdict = "held" if held(name, value) else "**missed**"
        lines.append(f"| `{name}` | {sign} {bound:g} | {value:.3g} | {least:.3g} – {most:.3g} | {verdict} |")
    lines += [
        "",
        "| load | peer | requests/s | first byte ms | total p50 ms | total p99 ms | CPU µs/request | failed |",
    ]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    rows = {(row["load"], row["peer"]): row for row in data["rows"]}
    peers = list(dict.fromkeys(row["peer"] for row in data["rows"]))
    lines += [_row(rows[load, peer]) for load in _LOADS for peer in peers if (load, peer) in rows]
    lines += [f"\n{name}: not in this run, {reason}." for name, reason in data["skipped"].items()]
    return "\n".join(lines)


def memory(data: Mapping[str, Any]) -> str:
    """What was found of memory, in Markdown."""
    readings, readers = data["requests"], data["readers"]
    sizes = [one["memory_mb"] for one in readings]
    return (
        f"Resident memory: {sizes[0]:.1f} MB after the first second, {sizes[-1]:.1f} MB after "
        f"{readings[-1]['answered']:,.0f} requests, between them at most {max(sizes):.1f} MB. "
        f"{readers['readers']:,.0f} slow readers: {readers['grown_mb']:+.1f} MB, {readers['kb_a_reader']:.1f} kB each."
    )


def _row(row: Mapping[str, Any]) -> str:
    cells = [
        _number(row["requests_per_second"]),
        _number(row["first_byte_p50_ms"]),
        _number(row["total_p50_ms"]),
        _number(row["total_p99_ms"]),
        _number(row["cpu_us_per_request"]),
        str(row["failures"] or ""),
    ]
    return f"| {row['load']} | {row['peer']} | {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def current(page: str) -> str:
    """The page with what the result files say between its marks."""
    text = f"{section(json.loads(RESULT.read_text()))}\n\n{memory(json.loads(MEMORY.read_text()))}"
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text()))
