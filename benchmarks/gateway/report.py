"""From measured rounds to rows, ratios, a file and a table."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from benchmarks.gateway.client import Result
from rich.console import Console
from rich.table import Table


class Round(NamedTuple):
    """One load against one peer, once. Milliseconds; None where nothing came whole or nothing was weighed."""

    requests_per_second: float
    first_byte_p50_ms: float | None
    first_byte_p99_ms: float | None
    total_p50_ms: float | None
    total_p99_ms: float | None
    cpu_us_per_request: float | None
    memory_mb: float | None
    failures: int


Rounds = dict[tuple[str, str], list[Round]]
"""By peer and load."""


def summarise(result: Result, cpu: float, memory: int) -> Round:
    """One result; ``cpu`` in seconds for all its answers, ``memory`` in bytes, both 0 where there is no proxy."""
    answered = result.answered
    return Round(
        len(result.total) / result.seconds,
        _quantile(result.first, 0.5),
        _quantile(result.first, 0.99),
        _quantile(result.total, 0.5),
        _quantile(result.total, 0.99),
        cpu * 1e6 / answered if cpu and answered else None,
        memory / 1e6 if memory else None,
        result.failures,
    )


def _quantile(seconds: Sequence[float], q: float) -> float | None:
    if not seconds:
        return None
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, round(q * (len(ordered) - 1)))] * 1e3


def result(
    rounds: Rounds,
    *,
    versions: Mapping[str, str | None],
    skipped: Mapping[str, str],
    load_average: tuple[float, float, float],
    pinned: bool,
    seconds: float,
) -> dict[str, Any]:
    """The result file's content: the format of every benchmark of the project."""
    ratios = {name: _spread(values) for name, values in _ratios(rounds).items()}
    return {
        "machine": machine(pinned=pinned, load_average=load_average),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("uvloop", "httptools")},
            **versions,
        },
        "rounds": max((len(found) for found in rounds.values()), default=0),
        "seconds": seconds,
        "skipped": dict(skipped),
        "rows": [_row(peer, load, found) for (peer, load), found in rounds.items()],
        "ratios": {name: spread[0] for name, spread in ratios.items()},
        "ratio_spread": {name: spread[1:] for name, spread in ratios.items()},
    }


def machine(*, pinned: bool, load_average: tuple[float, float, float]) -> dict[str, Any]:
    """What was measured on."""
    return {
        "cpu": _cpu(),
        "cores": psutil.cpu_count(),
        "kernel": platform.release(),
        "pinned": pinned,
        "load_average_before": [round(value, 2) for value in load_average],
    }


def _row(peer: str, load: str, found: Sequence[Round]) -> dict[str, Any]:
    row: dict[str, Any] = {"peer": peer, "load": load}
    for name in Round._fields:
        values = [value for one in found if (value := getattr(one, name)) is not None]
        if name == "failures":
            row[name] = sum(values)
        else:
            row[name] = _spread(values)[0] if values else None
            row[f"{name}_spread"] = _spread(values)[1:] if values else None
    return row


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Median, smallest, largest."""
    middle, least, most = (float(f"{value:.4g}") for value in (statistics.median(values), min(values), max(values)))
    return middle, least, most


Get = Callable[[str, str, str], float]
"""A figure of one round, by peer, load and name. Raises KeyError or TypeError where there is none."""


def _wanted() -> dict[str, Callable[[Get], float]]:
    """Every ratio that is wanted, as a function of one round."""
    wanted: dict[str, Callable[[Get], float]] = {}
    for kind in ("json", "sse"):
        wanted[f"cpu_us_per_request_{kind}_outrider_over_smg"] = partial(
            _quotient, "outrider", "smg", f"{kind}_c16", "cpu_us_per_request"
        )
        for concurrency in (1, 16, 64):
            for q in ("p50", "p99"):
                load = f"{kind}_c{concurrency}"
                wanted[f"added_{q}_{load}_outrider_over_smg"] = partial(_added_quotient, "outrider", "smg", load, q)
        for concurrency in (16, 64):
            load = f"{kind}_c{concurrency}"
            wanted[f"rps_{load}_outrider_over_smg"] = partial(_quotient, "outrider", "smg", load, "requests_per_second")
    wanted["sse_first_byte_c1_ms_above_haproxy"] = lambda get: (
        get("outrider", "sse_c1", "first_byte_p50_ms") - get("haproxy", "sse_c1", "first_byte_p50_ms")
    )
    wanted["added_p50_json_c1_litellm_over_outrider"] = partial(
        _added_quotient, "litellm", "outrider", "json_c1", "p50"
    )
    return wanted


def _quotient(one: str, other: str, load: str, name: str, get: Get) -> float:
    return get(one, load, name) / get(other, load, name)


def _added_quotient(one: str, other: str, load: str, q: str, get: Get) -> float:
    return _added(get, one, load, q) / _added(get, other, load, q)


def _ratios(rounds: Rounds) -> dict[str, list[float]]:
    """Every ratio whose peers and loads were part of the run, one value a round."""
    count = max((len(found) for found in rounds.values()), default=0)
    found: dict[str, list[float]] = {}
    for name, ratio in _wanted().items():
        try:
            found[name] = [ratio(partial(_figure, rounds, number)) for number in range(count)]
        except (KeyError, TypeError, ZeroDivisionError):
            continue
    return {name: values for name, values in found.items() if values}


def _figure(rounds: Rounds, number: int, peer: str, load: str, name: str) -> float:
    return float(getattr(rounds[peer, load][number], name))


def _added(get: Get, peer: str, load: str, q: str) -> float:
    return get(peer, load, f"total_{q}_ms") - get("direct", load, f"total_{q}_ms")


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def write(data: Mapping[str, Any], path: Path) -> None:
    """Write a result by atomic rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(data, indent=1) + "\n")
    temporary.replace(path)


_COLUMNS = (
    ("req/s", "requests_per_second", "{:,.0f}"),
    ("first byte p50 ms", "first_byte_p50_ms", "{:.3f}"),
    ("total p50 ms", "total_p50_ms", "{:.3f}"),
    ("total p99 ms", "total_p99_ms", "{:.3f}"),
    ("CPU µs/req", "cpu_us_per_request", "{:,.0f}"),
)


def show(data: Mapping[str, Any], console: Console) -> None:
    """Print rows and ratios, at least 100 columns wide: a number cut off is none."""
    console.width = max(100, console.width)
    table = Table(title=f"Medians of {data['rounds']} rounds, {data['seconds']:g} s each")
    table.add_column("load", no_wrap=True)
    table.add_column("peer", no_wrap=True)
    for title, _, _ in _COLUMNS:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("failed", justify="right")
    previous = None
    for row in sorted(data["rows"], key=lambda row: _order(data, row)):
        if previous not in (None, row["load"]):
            table.add_section()
        cells = ["–" if row[name] is None else form.format(row[name]) for _, name, form in _COLUMNS]
        table.add_row("" if previous == row["load"] else row["load"], row["peer"], *cells, str(row["failures"] or ""))
        previous = row["load"]
    console.print(table)
    if not data["ratios"]:
        return
    ratios = Table(title="Ratios: median (smallest – largest of the rounds)")
    ratios.add_column("ratio")
    ratios.add_column("value", justify="right")
    ratios.add_column("spread", justify="right")
    for name, value in data["ratios"].items():
        least, most = data["ratio_spread"][name]
        ratios.add_row(name, f"{value:.3g}", f"{least:.3g} – {most:.3g}")
    console.print(ratios)


def _order(data: Mapping[str, Any], row: Mapping[str, Any]) -> int:
    loads = list(dict.fromkeys(one["load"] for one in data["rows"]))
    return loads.index(row["load"])
