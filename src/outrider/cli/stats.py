"""``endpoint stats``: the last minute of an endpoint and its replicas, once or redrawn each second."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from outrider.cli.candidates import endpoint_names
from outrider.cli.terminal import console, drawn_table, say, show_json, show_table
from outrider.cli.text import clean
from outrider.client.http import Client

EVERY = 1.0
"""Seconds between two looks: engines are read as often."""

View = Mapping[str, Any]
Section = tuple[Sequence[str], list[Sequence[str]]]
"""Column names and rows."""

_UNKNOWN = "–"
_POSITIONS = 12
"""Draft positions beside each other: what a hundred columns hold."""
_QUANTILES = ("p50", "p95", "p99")


def register(app: typer.Typer) -> None:
    """Add the command to the group."""
    app.command("stats")(stats)


def stats(
    name: Annotated[str, typer.Argument(autocompletion=endpoint_names)],
    watch: Annotated[bool, typer.Option("--watch", help="Go on, and redraw each second.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; with --watch one object a line.")] = False,
) -> None:
    """Show the last minute: TTFT, ITL, E2E, rates, queues, KV cache, τ.

    Of the endpoint and of each replica. Requests and their tokens count when they end; TTFT and ITL are of streams; –
    means that nobody knows.
    """
    with Client() as client:
        if not watch:
            view = client.stats(name)
            if as_json:
                show_json(view)
            else:
                _print(view)
            return
        with _display(as_json) as show:
            while True:
                show(client.stats(name))
                time.sleep(EVERY)


@contextmanager
def _display(as_json: bool) -> Iterator[Callable[[View], None]]:
    if as_json:
        yield lambda view: print(json.dumps(view, ensure_ascii=False), flush=True)
    elif console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda view: live.update(_drawn(view), refresh=True)
    else:
        yield _print


def _print(view: View) -> None:
    say(summary(view))
    for columns, rows in sections(view):
        say()
        show_table(columns, rows)
    say()


def _drawn(view: View) -> Group:
    parts: list[Any] = [Text(clean(summary(view)))]
    for columns, rows in sections(view):
        parts += ["", drawn_table(columns, rows)]
    return Group(*parts)


def summary(view: View) -> str:
    """One line: how many requests ended, how many there are, and whether anything is there to serve them."""
    gateway, head = view["gateway"], f"{view['name']}, last {view['covered']:.0f} s: "
    if gateway is None:
        return head + "no gateway tells of its requests"
    counts = f"{gateway['requests']} requests ended, {gateway['failed']} failed, {gateway['refused']} refused"
    served = "" if view["replicas"] else ", no replica"
    return f"{head}{counts}; now {gateway['in_flight']} in flight, {view['held']} held{served}"


def sections(view: View) -> list[Section]:
    """The tables: durations, load, and where an engine says it, its own durations and how drafts fare."""
    parts = [("all", view), *((str(replica["id"]), replica) for replica in view["replicas"])]
    gateways = [(label, part["gateway"] or {}) for label, part in parts]
    engines = [(label, part["engine"] or {}) for label, part in parts]
    found = [
        _durations("replica", ("ttft", "itl", "e2e"), gateways),
        (
            (
                "replica",
                "requests/s",
                "output tok/s",
                "prompt tok/s",
                "running",
                "waiting",
                "KV use",
                "cache hits",
                "τ",
            ),
            [_load(label, part["gateway"] or {}, part["engine"] or {}) for label, part in parts],
        ),
    ]
    if any(engine.get(kind) for _, engine in engines for kind in ("ttft", "itl", "queue")):
        found.append(_durations("in the engine", ("ttft", "itl", "queue"), engines))
    found += _acceptance(engines)
    return found


def _durations(title: str, kinds: Sequence[str], parts: Sequence[tuple[str, View]]) -> Section:
    columns = [title]
    for kind in kinds:
        word = kind if kind == "queue" else kind.upper()
        columns += [f"{word} p50", "p95", "p99"]
    rows: list[Sequence[str]] = []
    for label, part in parts:
        quantiles = [(part.get(kind) or {}).get(q) for kind in kinds for q in _QUANTILES]
        rows.append((label, *(duration(seconds) for seconds in quantiles)))
    return columns, rows


def _load(label: str, gateway: View, engine: View) -> Sequence[str]:
    τ = engine.get("acceptance_length")
    return (
        label,
        rate(gateway.get("requests_per_second")),
        rate(gateway.get("output_tokens_per_second")),
        rate(gateway.get("prompt_tokens_per_second")),
        _count(engine.get("running")),
        _count(engine.get("waiting")),
        share(engine.get("kv_usage")),
        share(engine.get("prefix_hit_rate")),
        _UNKNOWN if τ is None else f"{τ:.2f}",
    )


def _acceptance(engines: Sequence[tuple[str, View]]) -> list[Section]:
    """Positions from 1 on, in lines of :data:`_POSITIONS`; those at the end where nothing was accepted are left out."""
    shares = [(label, engine.get("acceptance_by_position") or ()) for label, engine in engines]
    last = max((number for _, row in shares for number, value in enumerate(row, 1) if value or number == 1), default=0)
    found: list[Section] = []
    for start in range(0, last, _POSITIONS):
        numbers = range(start, min(start + _POSITIONS, last))
        rows: list[Sequence[str]] = [
            (label, *(f"{row[n]:.0%}" if n < len(row) else _UNKNOWN for n in numbers)) for label, row in shares
        ]
        found.append((("accepted at", *(str(number + 1) for number in numbers)), rows))
    return found


def duration(seconds: float | None) -> str:
    """A latency for people."""
    if seconds is None:
        return _UNKNOWN
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"
    return f"{seconds:.2f} s"


def rate(value: float | None) -> str:
    """So many a second, for people."""
    if value is None:
        return _UNKNOWN
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def share(value: float | None) -> str:
    """A part of one, for people."""
    return _UNKNOWN if value is None else f"{value:.1%}"


def _count(value: int | None) -> str:
    return _UNKNOWN if value is None else str(value)
