"""``App`` and ``@app.server``: how a ``serve.py`` declares what one replica is.

The surface follows Modal's ``@app.server`` (names and meaning of the parameters), so that a file moves between the two
with few edits. The declaration is data: it is read in a child process (``runner --describe``), never in the controller.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from outrider.errors import InvalidSource

_C = TypeVar("_C", bound=type)
_HOOK = "__outrider_hook__"
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Declaration:
    """The arguments of ``@app.server``, checked.

    Attributes:
        gpu: GPU model and count (``"H200:1"``); None: no GPU.
        cpu: quota in cores; None: no quota. Enforced by cgroup where one is writable.
        memory: bytes the replica may need; None: unknown. Used to refuse what cannot fit.
        port: fixed port; None: a free one, so that several replicas fit on one machine.
        routing_region, compute_region: honoured by placements that have regions.
        target_concurrency: requests a replica should hold; what the autoscaler aims at.
        max_concurrency: requests a replica may hold; the gateway holds further ones back.
        min_replicas, max_replicas, buffer_replicas: bounds, and spare ones beyond demand.
        scaleup_window, scaledown_window: seconds of sustained demand, or idleness, before a change.
        startup_timeout: seconds from the start of the process to ready (600: weights may be loaded from a slow disk;
            fetching them is not counted).
        exit_grace_period: seconds for requests in flight when a replica stops (30).
        unauthenticated: no key is asked for.
        health_path: for a server without an engine object, the path that must answer below 500.
    """

    gpu: str | None = None
    cpu: float | None = None
    memory: int | None = None
    port: int | None = None
    routing_region: str | None = None
    compute_region: str | None = None
    target_concurrency: float | None = None
    max_concurrency: int | None = None
    min_replicas: int = 1
    max_replicas: int | None = None
    buffer_replicas: int = 0
    scaleup_window: float = 30.0
    scaledown_window: float = 300.0
    startup_timeout: float = 600.0
    exit_grace_period: float = 30.0
    unauthenticated: bool = False
    health_path: str = "/"

    def __post_init__(self) -> None:
        for wrong, message in _checks(self):
            if wrong:
                raise InvalidSource(f"@app.server: {message}", remedy="Correct the argument in serve.py.")

    def as_dict(self) -> dict[str, Any]:
        """JSON-serialisable form."""
        return asdict(self)


def _checks(d: Declaration) -> list[tuple[bool, str]]:
    return [
        (d.port is not None and not 1 <= d.port <= 65535, f"port must be 1…65535, not {d.port!r}"),
        (d.min_replicas < 0, f"min_replicas must be 0 or more, not {d.min_replicas!r}"),
        (
            d.max_replicas is not None and d.max_replicas < max(1, d.min_replicas),
            f"max_replicas must be at least 1 and min_replicas, not {d.max_replicas!r}",
        ),
        (d.buffer_replicas < 0, f"buffer_replicas must be 0 or more, not {d.buffer_replicas!r}"),
        (d.cpu is not None and d.cpu <= 0, f"cpu must be above 0 cores, not {d.cpu!r}"),
        (d.memory is not None and d.memory <= 0, f"memory must be above 0 bytes, not {d.memory!r}"),
        (
            d.max_concurrency is not None and d.max_concurrency < 1,
            f"max_concurrency must be 1 or more, not {d.max_concurrency!r}",
        ),
        (d.startup_timeout <= 0, f"startup_timeout must be above 0 s, not {d.startup_timeout!r}"),
        (d.exit_grace_period < 0, f"exit_grace_period must be 0 s or more, not {d.exit_grace_period!r}"),
        (not d.health_path.startswith("/"), f"health_path must start with '/', not {d.health_path!r}"),
        (
            d.port is not None and (d.max_replicas or d.min_replicas) > 1,
            f"a fixed port ({d.port}) allows one replica on a machine; leave port out to have several",
        ),
    ]


class App:
    """A named collection of one server class.

    Args:
        name: endpoint name: a DNS label of at most 40 characters.
    """

    def __init__(self, name: str) -> None:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", name):
            raise InvalidSource(
                f"App name {name!r} is no DNS label of at most 40 characters",
                remedy="Use lower-case letters, digits and hyphens, starting and ending with a letter or digit.",
            )
        self.name = name
        self.declaration: Declaration | None = None
        self.server_class: type | None = None

    def server(self, **arguments: Any) -> Callable[[_C], _C]:
        """Declare the decorated class as the server; the arguments are :class:`Declaration`'s.

        Raises:
            InvalidSource: an unknown or impossible argument, a second server, or a class whose constructor wants some.
        """
        known = set(inspect.signature(Declaration).parameters)
        if unknown := sorted(set(arguments) - known):
            raise InvalidSource(
                f"@app.server has no argument {unknown[0]!r}", remedy=f"Known: {', '.join(sorted(known))}."
            )
        declaration = Declaration(**arguments)

        def register(cls: _C) -> _C:
            if self.server_class is not None:
                raise InvalidSource("A serve.py declares one server", why=f"{self.server_class.__name__} was first")
            if not any(hooks(cls, "enter")) and getattr(cls, "engine", None) is None:
                raise InvalidSource(
                    f"{cls.__name__} starts nothing",
                    remedy="Give it an `engine = outrider.LlamaCpp(...)` or a method under `@outrider.enter()`.",
                )
            self.declaration, self.server_class = declaration, cls
            return cls

        return register


def enter() -> Callable[[_F], _F]:
    """Mark a method that starts the server: it returns once a process or thread will listen on ``self.port``."""
    return _mark("enter")


def exit() -> Callable[[_F], _F]:
    """Mark a method that runs when the replica stops."""
    return _mark("exit")


def hooks(cls: type, kind: str) -> list[Callable[[Any], Any]]:
    """The methods of a class marked ``kind``, in the order they are written."""
    members = {name: member for base in reversed(cls.__mro__) for name, member in vars(base).items()}
    return [member for member in members.values() if getattr(member, _HOOK, None) == kind]


def _mark(kind: str) -> Callable[[_F], _F]:
    def decorate(method: _F) -> _F:
        setattr(method, _HOOK, kind)
        return method

    return decorate
