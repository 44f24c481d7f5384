"""What a placement is: where replicas run. The controller decides; a placement starts, observes and ends."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from outrider.app.state import ReplicaState


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """One replica to start.

    Attributes:
        id: unique, at most 16 characters (its socket's name is bounded).
        endpoint, revision: what it serves.
        source: the ``serve.py`` to run.
        key: the engine's own random key.
        cpu: quota in cores, or None.
        created_at: UTC ms.
    """

    id: str
    endpoint: str
    revision: int
    source: Path
    key: str
    cpu: float | None
    created_at: int


@dataclass(frozen=True, slots=True)
class Replica:
    """A replica as it was started: its spec and the process that is it. Found again after a restart (adoption)."""

    spec: ReplicaSpec
    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class Observation:
    """What is seen of a replica now.

    Attributes:
        alive: its process runs.
        state: what its runner says; None when it does not answer yet.
        exit: ``exit.json`` once it ended; None there means it was killed.
        log: last lines, only when it ended.
    """

    alive: bool
    state: ReplicaState | None
    exit: dict[str, Any] | None
    log: tuple[str, ...] = ()


class Log(Protocol):
    """A replica's log, read as it grows. All methods block."""

    def read(self) -> list[str]:
        """Whole lines that came since the last call; none if nothing came."""
        ...

    def rest(self) -> list[str]:
        """The lines up to the end, for a replica that writes no more; works after it was removed."""
        ...

    def close(self) -> None:
        """Give it back."""
        ...


class Placement(Protocol):
    """Starts, observes and ends replicas. All methods block; the controller calls them in threads."""

    def start(self, spec: ReplicaSpec) -> Replica:
        """Start a replica and return at once. Raises MachineFault."""
        ...

    def observe(self, replica: Replica) -> Observation:
        """Look at a replica; never raises."""
        ...

    def drain(self, replica: Replica) -> None:
        """Ask a replica to finish and end; returns at once."""
        ...

    def kill(self, replica: Replica) -> None:
        """End a replica and all it started, by force; returns when it is gone."""
        ...

    def remove(self, replica: Replica) -> None:
        """Forget an ended replica: its directory, socket and cgroup."""
        ...

    def adopt(self) -> list[Replica]:
        """The replicas that are there, whoever started them."""
        ...

    def log(self, replica_id: str, lines: int) -> list[str] | None:
        """Last lines of a replica's log; None if there is no such replica."""
        ...

    def follow(self, replica_id: str, lines: int) -> Log | None:
        """A replica's log from its last lines on, to be read as it grows; None if there is no such replica."""
        ...
