"""What the runner knows of a server, and nothing more.

The runner drives one replica through its stages. What it drives is a :class:`Server`: an engine (SGLang, vLLM,
llama.cpp) implements it directly, a plain ``@app.server`` class is adapted to it by :mod:`outrider.app.hooks`.
All methods block and are called from the runner's main thread, so that a parent-death signal set on a child process
means the death of the runner and not of some thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable


class Stage(StrEnum):
    """Where a replica is in its life. One enum everywhere: state files, API, console."""

    PENDING = "pending"
    PREPARING = "preparing"
    STARTING = "starting"
    WARMING = "warming"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage has come: a line for people, bytes where bytes are what is waited for.

    ``done`` and ``total`` are bytes; ``total`` is None while unknown.
    """

    detail: str
    done: int | None = None
    total: int | None = None


Report = Callable[[Progress], None]
"""Called by whoever works, shown by whoever watches."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What a server is told when it starts.

    Attributes:
        name: endpoint name; the engine serves the model under it, so that no request body is rewritten.
        host: address to bind (loopback for local placement).
        port: free port to bind.
        key: random key that only the gateway knows; the engine must ask for it where it can.
        log: file that the engine's output is appended to.
        scratch: private (0700) directory of this replica, for key files and sockets; removed with the replica.
    """

    name: str
    host: str
    port: int
    key: str
    log: Path
    scratch: Path
    env: dict[str, str] = field(default_factory=dict)


class Weights(Protocol):
    """Files that a server needs before it starts."""

    def prepare(self, report: Report) -> Path:
        """Make the files present, checked by SHA-256, and return the path of the file or directory.

        Raises:
            WeightsUnavailable, WeightsCorrupt, DiskFull, PermissionRefused
        """
        ...


@runtime_checkable
class Server(Protocol):
    """One replica, as the runner drives it: prepare → start → probe until true → warm_up → (ready) → stop."""

    def prepare(self, report: Report) -> None:
        """Make weights and environment present on this node. May take hours; reports bytes."""
        ...

    def start(self, launch: Launch) -> None:
        """Start the process and return at once."""
        ...

    def poll(self) -> int | None:
        """Exit code of the process (negative: signal), or None while it runs."""
        ...

    def probe(self) -> bool:
        """Whether the server answers. Cheap; called every 100 ms while starting, every second later."""
        ...

    def warm_up(self, report: Report) -> None:
        """Send the requests that must have worked once before users' requests come.

        Raises:
            ReplicaFailed: an answer was wrong.
        """
        ...

    def stop(self, grace: float) -> None:
        """End the process: politely, and after ``grace`` seconds by force. Idempotent."""
        ...

    @property
    def metrics_url(self) -> str | None:
        """Where Prometheus text is served, or None."""
        ...
