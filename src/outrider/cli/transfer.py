"""Bytes on their way before people's eyes: a bar with amount and rate on a terminal, a line a step elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from outrider.app.server import Progress as Step
from outrider.app.server import Report
from outrider.cli.terminal import console, say
from outrider.cli.text import clean, size


@contextmanager
def transfer(*, quiet: bool) -> Iterator[Report]:
    """Somewhere to report to while bytes are fetched or read; nothing is shown if ``quiet``."""
    if quiet:
        yield lambda step: None
    elif console.is_terminal:
        with _bar() as progress:
            yield _Bar(progress)
    else:
        yield _Lines()


def _bar() -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(24), DownloadColumn())
    return Progress(*columns, TransferSpeedColumn(), TimeRemainingColumn(), console=console, transient=True)


class _Bar:
    """One bar, begun again with each new step, so that the rate is this step's and a resumed file's start not its."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None)
        self._detail = ""

    def __call__(self, step: Step) -> None:
        detail = clean(step.detail)
        if detail != self._detail:
            self._detail = detail
            self._progress.reset(self._task, total=step.total, completed=step.done or 0, description=detail)
        elif step.done is not None:
            self._progress.update(self._task, total=step.total, completed=step.done)


class _Lines:
    """A line for each step."""

    def __init__(self) -> None:
        self._detail = ""

    def __call__(self, step: Step) -> None:
        if step.detail != self._detail:
            self._detail = step.detail
            say(f"  {step.detail}" + (f" ({size(step.total)})" if step.total else ""))
