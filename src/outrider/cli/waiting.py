"""Waiting for an endpoint before people's eyes: redrawn on a terminal, a line a stage elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from outrider.cli.terminal import console, say
from outrider.cli.text import clean, size, span
from outrider.cli.watch import Span, Watch, lines
from outrider.client.http import Client
from outrider.client.problems import rebuild
from outrider.errors import Conflict, OutriderError, ReplicaFailed, StartTimeout

POLL = 0.1
"""Seconds between two looks: what a person takes for at once."""
_SHOWN = 6


class _Shown(Protocol):
    def __call__(self, watch: Watch) -> None: ...


def wait_ready(client: Client, view: dict[str, Any], *, timeout: float, quiet: bool) -> dict[str, Any]:
    """Wait until the wanted revision of an endpoint serves; its view then.

    Raises:
        the error that its replica ended with (ReplicaFailed, StartTimeout, WeightsUnavailable, …), its log in details;
        StartTimeout: ``timeout`` seconds went by; Conflict: somebody stopped or changed it meanwhile.
    """
    name, start = str(view["name"]), time.monotonic()
    watch = Watch(name, int(view["revision"]["number"]), start)
    with _display(quiet) as shown:
        while True:
            view = client.endpoint(name)
            watch = watch.see(view, time.monotonic())
            shown(watch)
            if watch.outcome == "ready":
                return view
            if error := trouble(client, watch, elapsed=time.monotonic() - start, timeout=timeout):
                raise error
            time.sleep(POLL)


def trouble(client: Client, watch: Watch, *, elapsed: float, timeout: float) -> OutriderError | None:
    """Why an endpoint is waited for no longer, as :func:`wait_ready` raises it; None: it is ready, or may become so."""
    name = watch.endpoint
    if watch.outcome == "failed":
        return _cause(client, watch)
    if watch.outcome == "overtaken":
        return Conflict(f"{name} is not waited for any more", why=watch.reason, remedy=_look_at(name))
    if watch.outcome == "waiting" and elapsed > timeout:
        stage = watch.spans[-1].stage if watch.spans else "pending"
        return StartTimeout(
            f"{name} is not ready after {span(timeout)}",
            why=f"it is {stage}",
            remedy=f"It goes on. {_look_at(name)}",
        )
    return None


def _look_at(name: str) -> str:
    return f"See: outrider endpoint info {name}"


def _cause(client: Client, watch: Watch) -> OutriderError:
    """The error that a replica of the awaited revision ended with, as the event holds it."""
    for event in reversed(client.events(watch.endpoint)):
        data = event["data"]
        if event["kind"] == "replica_failed" and event["revision"] == watch.revision and data.get("error"):
            error = rebuild(data["error"])
            error.details.setdefault("log", data.get("log", []))
            return error
    why, remedy = watch.reason, f"See: outrider endpoint events {watch.endpoint}"
    return ReplicaFailed(f"{watch.endpoint} did not become ready", why=why, remedy=remedy)


@contextmanager
def _display(quiet: bool) -> Iterator[_Shown]:
    if quiet:
        yield lambda watch: None
    elif console.is_terminal:
        with Live(console=console, auto_refresh=True, refresh_per_second=12) as live:
            spinner = Spinner("dots", style="cyan")
            yield lambda watch: live.update(Padding(drawn(watch, time.monotonic(), spinner), (0, 0, 0, 2)))
    else:
        before: list[Watch] = []

        def print_new(watch: Watch) -> None:
            for line in lines(before[-1] if before else Watch(watch.endpoint, watch.revision, watch.begun), watch):
                say(line)
            before[:] = [watch]

        yield print_new


def drawn(watch: Watch, now: float, spinner: Spinner) -> Table:
    """The stages as a table: mark, stage, time, and bytes or what is being done."""
    table = Table.grid(padding=(0, 1))
    for column in ("mark", "stage", "time", "what"):
        table.add_column(justify="right" if column == "time" else "left", no_wrap=True, overflow="ellipsis")
    if not watch.spans:
        mark: Text | Spinner = Text("✗", "red") if watch.outcome == "failed" else spinner
        table.add_row(mark, "pending", Text(span(now - watch.begun), "dim"), "")
    for entry in watch.spans[-_SHOWN:]:
        ended = entry.ended is not None
        broken = watch.outcome == "failed" and entry is watch.spans[-1]
        mark = Text("✗", "red") if broken else Text("✓", "green") if ended else spinner
        seconds = now - watch.begun if entry.stage == "ready" else entry.seconds(now)
        style = "bold green" if entry.stage == "ready" else "red" if broken else "" if ended else "bold"
        table.add_row(mark, Text(entry.stage, style), Text(span(seconds), "dim"), what(entry, now))
    return table


def what(entry: Span, now: float) -> Table | Text:
    """What is being done in a stage: bytes with a bar, or words."""
    detail = Text(clean(entry.detail), "dim")
    if entry.done is None:
        return detail if entry.ended is None else Text("")
    if entry.ended is not None:
        return Text(size(entry.total or entry.done), "dim")  # it is over, so all of it came
    row = Table.grid(padding=(0, 1))
    for _ in range(4):
        row.add_column(no_wrap=True, overflow="ellipsis")
    speed = entry.speed(now)
    words = f"{size(entry.done)} / {size(entry.total)}" if entry.total else size(entry.done)
    pace = Text(f"{size(speed)}/s" if speed else "", "dim")
    bar = ProgressBar(total=entry.total, completed=entry.done, width=24, pulse=not entry.total)
    row.add_row(bar, words, pace, detail)
    return row
