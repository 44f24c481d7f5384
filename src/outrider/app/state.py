"""What a runner tells of its replica: ``state.json`` while it lives, ``exit.json`` when it ends.

Files are replaced atomically, so that a reader never sees half of one. A replica that is gone without an ``exit.json``
was killed.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.app.server import Progress, Stage

LOG_LINES = 200
"""Lines of the log kept in ``exit.json``: enough for a traceback and what led to it."""


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """One observation. ``since`` is UTC ms of the entry into ``stage``; ``done`` and ``total`` are bytes."""

    stage: Stage
    detail: str
    done: int | None
    total: int | None
    engine_url: str | None
    metrics_url: str | None
    since: int

    def as_dict(self) -> dict[str, Any]:
        """The JSON of ``GET /state`` and of ``state.json``."""
        progress = None if self.done is None else {"done": self.done, "total": self.total}
        return {
            "stage": self.stage.value,
            "detail": self.detail,
            "progress": progress,
            "engine_url": self.engine_url,
            "metrics_url": self.metrics_url,
            "since": self.since,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ReplicaState:
        """Inverse of :meth:`as_dict`. Raises ValueError or KeyError for anything else."""
        progress = data.get("progress") or {}
        return cls(
            Stage(data["stage"]),
            str(data.get("detail") or ""),
            progress.get("done"),
            progress.get("total"),
            data.get("engine_url"),
            data.get("metrics_url"),
            int(data["since"]),
        )


class StateFile:
    """The runner's current state, in memory and in ``state.json``."""

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._lock = threading.Lock()
        self._state = ReplicaState(Stage.PENDING, "", None, None, None, None, self._ms())
        self._write(self._state)

    @property
    def state(self) -> ReplicaState:
        """The latest state."""
        return self._state

    def enter(
        self, stage: Stage, detail: str = "", *, engine_url: str | None = None, metrics: str | None = None
    ) -> None:
        """Enter a stage. The URLs stay once they are known."""
        with self._lock:
            old = self._state
            url, metrics_url = engine_url or old.engine_url, metrics or old.metrics_url
            self._state = ReplicaState(stage, detail, None, None, url, metrics_url, self._ms())
            self._write(self._state)

    def report(self, progress: Progress) -> None:
        """Progress within the stage. Kept in memory; the file is written when the detail changes."""
        with self._lock:
            old = self._state
            self._state = ReplicaState(
                old.stage,
                progress.detail,
                progress.done,
                progress.total,
                old.engine_url,
                old.metrics_url,
                old.since,
            )
            if progress.detail != old.detail:
                self._write(self._state)

    def _ms(self) -> int:
        return int(self._now() * 1000)

    def _write(self, state: ReplicaState) -> None:
        write_json(self._path, state.as_dict())


def write_exit(path: Path, *, code: int, reason: str, error: dict[str, Any] | None, log: Path) -> None:
    """Leave ``exit.json``: ``code`` (0: asked to stop), ``signal``, ``reason``, ``error`` (problem), ``log``."""
    signal = -code if code < 0 else None
    write_json(path, {"code": code, "signal": signal, "reason": reason, "error": error, "log": tail(log)})


def tail(path: Path, lines: int = LOG_LINES) -> list[str]:
    """The last lines of a file, read from its last 256 KiB; none if there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 262_144))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return list(deque(text.splitlines(), maxlen=lines))


def write_json(path: Path, data: Any) -> None:
    """Replace a file atomically, 0600."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(data, file)
    temporary.replace(path)
