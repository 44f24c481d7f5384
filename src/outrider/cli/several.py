"""Waiting for several endpoints at once before people's eyes: a row an endpoint on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.live import Live
from rich.padding import Padding
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from outrider.cli.terminal import console, say
from outrider.cli.text import span
from outrider.cli.waiting import POLL, trouble, what
from outrider.cli.watch import Watch, lines
from outrider.client.http import Client
from outrider.errors import NotFound, OutriderError

Outcomes = dict[str, dict[str, Any] | OutriderError]
"""By endpoint: its view once it serves, or why it does not."""


def wait_all(client: Client, views: Sequence[dict[str, Any]], *, timeout: float, quiet: bool) -> Outcomes:
    """Wait until the wanted revision of each endpoint serves or is known not to; one that fails stops no other.

    Raises:
        ControllerUnreachable: none can be seen any more.
    """
    start = time.monotonic()
    watches = {view["name"]: Watch(view["name"], int(view["revision"]["number"]), start) for view in views}
    outcomes: Outcomes = {}
    with _display(quiet) as shown:
        while True:
            for name in [name for name in watches if name not in outcomes]:
                watches[name], outcome = _look(client, watches[name], time.monotonic() - start, timeout)
                if outcome is not None:
                    outcomes[name] = outcome
            shown(watches)
            if len(outcomes) == len(watches):
                return outcomes
            time.sleep(POLL)


def _look(
    client: Client, watch: Watch, elapsed: float, timeout: float
) -> tuple[Watch, dict[str, Any] | OutriderError | None]:
    try:
        view = client.endpoint(watch.endpoint)
    except NotFound as error:
        return watch, error  # somebody removed it
    watch = watch.see(view, time.monotonic())
    return watch, view if watch.outcome == "ready" else trouble(client, watch, elapsed=elapsed, timeout=timeout)


@contextmanager
def _display(quiet: bool) -> Iterator[Callable[[Mapping[str, Watch]], None]]:
    if quiet:
        yield lambda watches: None
    elif console.is_terminal:
        with Live(console=console, auto_refresh=True, refresh_per_second=12) as live:
            spinner = Spinner("dots", style="cyan")
            yield lambda watches: live.update(Padding(drawn(watches, time.monotonic(), spinner), (0, 0, 0, 2)))
    else:
        before: dict[str, Watch] = {}

        def print_new(watches: Mapping[str, Watch]) -> None:
            width = max(map(len, watches), default=0)
            for name, watch in watches.items():
                for line in lines(before.get(name, Watch(name, watch.revision, watch.begun)), watch):
                    say(f"  {name:<{width}}  {line}")
            before.update(watches)

        yield print_new


def drawn(watches: Mapping[str, Watch], now: float, spinner: Spinner) -> Table:
    """The endpoints as a table: mark, name, stage, time since the wait began, and bytes or what is being done."""
    table = Table.grid(padding=(0, 1))
    for column in ("mark", "name", "stage", "time", "what"):
        table.add_column(justify="right" if column == "time" else "left", no_wrap=True, overflow="ellipsis")
    for name, watch in watches.items():
        last = watch.spans[-1] if watch.spans else None
        stage = last.stage if last else "pending"
        over = watch.outcome != "waiting"
        mark: Text | Spinner = spinner
        if over:
            mark = Text("✓", "green") if watch.outcome == "ready" else Text("✗", "red")
        style = "bold green" if watch.outcome == "ready" else "red" if over else "bold"
        seconds = (last.ended if over and last and last.ended is not None else now) - watch.begun
        doing = what(last, now) if last and not over else Text("")
        table.add_row(mark, name, Text(stage, style), Text(span(seconds), "dim"), doing)
    return table
