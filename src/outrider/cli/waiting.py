"""Waiting for an endpoint: a line or a bar a stage, and a decision when it is over. The decision is pure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

from outrider.cli.terminal import console, megabytes
from outrider.client.http import Client, rebuild
from outrider.errors import OutriderError, ReplicaFailed, StartTimeout

STAGES = ("pending", "preparing", "starting", "warming", "ready")
_POLL = 0.1


@dataclass(frozen=True, slots=True)
class Look:
    """What an endpoint's view says of a revision that is awaited."""

    stage: str
    detail: str
    done: int | None
    total: int | None
    over: bool
    failed: str | None


def look(view: dict[str, Any], revision: int) -> Look:
    """Read a view while waiting for ``revision``."""
    present = view.get("revision") or {}
    if present.get("number") != revision:
        return Look("failed", "", None, None, True, f"revision {revision} was given up")
    if present.get("status") == "failed":
        return Look("failed", "", None, None, True, view.get("reason") or "it failed")
    if present.get("status") == "active" and view["state"] == "ready":
        return Look("ready", "", None, None, True, None)
    replicas = [r for r in view["replicas"] if r["revision"] == revision]
    if not replicas:
        return Look("pending", "", None, None, False, None)
    first = min(replicas, key=lambda r: STAGES.index(r["stage"]) if r["stage"] in STAGES else 0)
    progress = first.get("progress") or {}
    stage = first["stage"] if first["stage"] in STAGES else "pending"
    return Look(stage, first.get("detail") or "", progress.get("done"), progress.get("total"), False, None)


def wait_ready(client: Client, view: dict[str, Any], *, timeout: float, quiet: bool) -> dict[str, Any]:
    """Wait until the wanted revision of an endpoint serves.

    Raises:
        the error that its replica ended with (ReplicaFailed, StartTimeout, WeightsUnavailable, …), its log in details.
    """
    name, revision = view["name"], view["revision"]["number"]
    deadline = time.monotonic() + timeout
    with _display(quiet) as shown:
        while True:
            view = client.endpoint(name)
            seen = look(view, revision)
            shown(seen)
            if seen.over and seen.failed is None:
                return view
            if seen.over:
                raise _cause(client, name, revision, seen.failed or "")
            if time.monotonic() > deadline:
                raise StartTimeout(
                    f"{name} is not ready after {timeout:g} s",
                    why=f"it is {seen.stage}",
                    remedy=f"It goes on: outrider endpoint info {name}",
                )
            time.sleep(_POLL)


def _cause(client: Client, name: str, revision: int, reason: str) -> OutriderError:
    for event in reversed(client.events(name)):
        if event["kind"] == "replica_failed" and event["revision"] == revision and event["data"].get("error"):
            error = rebuild(event["data"]["error"])
            error.details.setdefault("log", event["data"].get("log", []))
            return error
    return ReplicaFailed(f"{name} did not become ready", why=reason, remedy=f"See: outrider endpoint events {name}")


class _display:
    """A live line per stage on a terminal, plain lines elsewhere, nothing when quiet."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self._named = 0
        self._start = time.monotonic()
        self._progress: Progress | None = None
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Callable[[Look], None]:
        if self._quiet:
            return lambda _: None
        if not console.is_terminal:
            return self._plain
        columns: list[ProgressColumn] = [
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=24),
            _Bytes(),
            TimeElapsedColumn(),
        ]
        self._progress = Progress(*columns, console=console)
        self._progress.start()
        return self._live

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _plain(self, seen: Look) -> None:
        # A stage may pass between two looks: it is named all the same.
        reached = STAGES.index(seen.stage) if seen.stage in STAGES else -1
        for stage in STAGES[self._named : reached + 1]:
            console.print(f"{time.monotonic() - self._start:6.1f} s  {stage}")
        self._named = max(self._named, reached + 1)

    def _live(self, seen: Look) -> None:
        assert self._progress is not None
        if seen.failed:
            return
        reached = STAGES.index(seen.stage)
        for stage in STAGES[1 : reached + 1]:
            if stage not in self._tasks:
                self._tasks[stage] = self._progress.add_task(stage, total=None)
        for stage in STAGES[1:reached]:
            self._progress.update(self._tasks[stage], total=1, completed=1)
        if seen.stage == "ready":
            self._progress.update(self._tasks["ready"], total=1, completed=1)
        elif reached:
            self._progress.update(self._tasks[seen.stage], total=seen.total, completed=seen.done or 0, refresh=True)


class _Bytes(ProgressColumn):
    def render(self, task: Task) -> Text:
        if task.completed <= 1:
            return Text("")
        total = f" / {megabytes(int(task.total))}" if task.total else ""
        return Text(f"{megabytes(int(task.completed))}{total}")
