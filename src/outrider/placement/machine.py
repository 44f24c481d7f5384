"""A machine as it was seen at one moment: facts only. What they mean is said in :mod:`outrider.placement.findings`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from outrider.placement.nvidia import Nvidia


@dataclass(frozen=True, slots=True)
class Processor:
    """Cores.

    Attributes:
        count: logical cores of the machine.
        usable: those this process may use (its affinity).
        quota: cores' worth of time that its cgroup allows; None: no limit.
        smt: whether two logical cores may share a physical one; None: the kernel does not say.
        model: as the kernel names it.
        architecture: as ``platform.machine()`` names it.
        flags: what it can do, ``/proc/cpuinfo``'s words; empty: none were listed.
    """

    count: int
    usable: int
    quota: float | None
    smt: bool | None
    model: str
    architecture: str
    flags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: all of the host's, what is available now, and what its cgroup allows this process (None: no limit)."""

    total: int
    available: int
    limit: int | None


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory Outrider writes to. It need not exist: then what counts is the nearest parent that does.

    Attributes:
        variable: the environment variable that moves it.
        path: where it is to be.
        nearest: itself, or its nearest existing parent.
        writable: whether this user may write there.
        free_bytes: on its file system.
        file_system: type, as ``ext4``, ``tmpfs``, ``overlay``.
    """

    variable: str
    path: Path
    nearest: Path
    writable: bool
    free_bytes: int
    file_system: str


@dataclass(frozen=True, slots=True)
class Sockets:
    """Where Unix sockets lie; ``longest`` is the length in bytes of the longest path that one will have."""

    path: Path
    longest: int
    writable: bool


@dataclass(frozen=True, slots=True)
class InstalledEngine:
    """An engine's package in one Python.

    Attributes:
        python: the interpreter.
        own: it is the one Outrider itself runs in; else an environment of the cache.
        package, version: the distribution.
        trouble: why importing it failed, in words; None: it imports.
    """

    python: Path
    own: bool
    engine: str
    package: str
    version: str
    trouble: str | None


@dataclass(frozen=True, slots=True)
class Port:
    """A loopback port that ``outrider up`` will want.

    Attributes:
        purpose: ``gateway`` or ``controller``.
        state: free, held by this home's own process, or by somebody else's.
        holder: who, in words, where it is taken.
        instead: a free port near it, where it is taken.
    """

    purpose: Literal["gateway", "controller"]
    number: int
    state: Literal["free", "ours", "taken"]
    holder: str | None = None
    instead: int | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """``now`` in UTC; whether the kernel counts it as synchronised (None: it does not say); the kernel's source."""

    now: datetime
    synchronised: bool | None
    source: str


@dataclass(frozen=True, slots=True)
class OpenFiles:
    """Descriptors a process may have open: now, and as far as it may raise that itself (None: no limit)."""

    soft: int
    hard: int | None


@dataclass(frozen=True, slots=True)
class Interpreter:
    """The Python that Outrider runs in; whether it has pip; where a usable ``uv`` is, if anywhere."""

    version: tuple[int, int, int]
    executable: Path
    pip: bool
    uv: Path | None


@dataclass(frozen=True, slots=True)
class Machine:
    """All of it. ``quota_obstacle``: why no CPU quota can be enforced; None: one can."""

    processor: Processor
    memory: Memory
    home: Directory
    cache: Directory
    sockets: Sockets
    quota_obstacle: str | None
    nvidia: Nvidia
    engines: tuple[InstalledEngine, ...]
    ports: tuple[Port, ...]
    clock: Clock
    open_files: OpenFiles
    python: Interpreter
