"""Progress of a download that somebody else writes: its directory is watched growing."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from outrider.app.server import Progress, Report

_INTERVAL = 0.1


class Growth:
    """While entered, reports every 100 ms how many bytes lie under ``directory``, from a thread of its own.

    Args:
        detail: the line for people.
        total: gives the bytes to come, or None while they are unknown.
    """

    def __init__(self, directory: Path, detail: str, total: Callable[[], int | None], report: Report) -> None:
        self._directory = directory
        self._detail = detail
        self._total = total
        self._report = report
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="growth", daemon=True)

    def __enter__(self) -> Growth:
        """Start watching."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching; the last state is reported, so that a short download shows its bytes, too."""
        self._finished.set()
        self._thread.join()

    def _watch(self) -> None:
        last = False
        while not last:
            last = self._finished.wait(_INTERVAL)
            done, total = tree_bytes(self._directory), self._total()
            # What the client keeps beside the download counts, too, and must not carry it past its end.
            self._report(Progress(self._detail, done if total is None else min(done, total), total))


def tree_bytes(directory: Path) -> int:
    """Bytes of all files under a directory, which may change meanwhile."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += (Path(folder) / name).lstat().st_size
            except OSError:
                continue  # moved about while we look
    return total
