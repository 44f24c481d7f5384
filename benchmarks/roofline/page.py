"""The roofline's part of ``docs/performance.md``, written from ``results/latest.json``.

    python -m benchmarks.roofline.page

What stands between the two marks on that page is replaced; a test sees to it that page and result agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULT = Path(__file__).with_name("results") / "latest.json"
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- roofline results: begin -->", "<!-- roofline results: end -->"
WANTED = 0.35
"""Median error that the planner's predictions may have."""


def section(data: Mapping[str, Any]) -> str:
    """The section, in Markdown."""
    rows = data["rows"]
    ratios = data["ratios"]
    median = ratios["itl_c1_median_abs_error"]
    verdict = "held" if median <= WANTED else "**missed**"
    lines = [
        f"{len(rows)} rows, {data['with_tau']} of them without speculation or with a known τ, {data['not_fitted']} of",
        "those were not used to set the roofline's constants.",
        "",
        "| ratio | wanted | median | |",
        "| --- | --- | --- | --- |",
        f"| `itl_c1_median_abs_error` | ≤ {WANTED} | {median:.3g} | {verdict} |",
        f"| `itl_c1_median_abs_error_not_fitted` | – | {ratios['itl_c1_median_abs_error_not_fitted']:.3g} | |",
        "",
        "| row | whose | τ | ITL ms | predicted ms | error |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    lines += [_known(row) for row in rows if "error" in row]
    lines += ["", "| row | ITL ms | step ms | implied τ | of at most | |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [_implied(row) for row in rows if "implied_tau" in row]
    lines += [f"\n{row['name']}: not computed, {row['unknown']} not known." for row in rows if "unknown" in row]
    return "\n".join(lines)


def _known(row: Mapping[str, Any]) -> str:
    whose = ("own" if row["own"] else "published") + (", fitted" if row["fitted"] else "")
    tau = f"{row['tau']:.3g}" if row["drafted"] else "–"
    return (
        f"| {row['name']} | {whose} | {tau} | {row['itl_ms']:.3g} | {row['predicted_ms']:.3g} | {row['error']:+.0%} |"
    )


def _implied(row: Mapping[str, Any]) -> str:
    flag = "" if row["possible"] else "**outside**"
    most = row["drafted"] + 1
    return (
        f"| {row['name']} | {row['itl_ms']:.3g} | {row['step_ms']:.3g} | {row['implied_tau']:.3g} | {most} | {flag} |"
    )


def current(page: str) -> str:
    """The page with what the result says between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{section(json.loads(RESULT.read_text(encoding='utf-8')))}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
