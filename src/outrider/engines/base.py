"""What every engine is: a :class:`~outrider.app.server.Server` that can also say what it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from outrider.app.server import Report, Server, Weights


class EngineEnvironment(Protocol):
    """What an engine needs of the Python it runs in; :class:`outrider.app.environment.Environment` is one."""

    @property
    def env(self) -> Mapping[str, str]:
        """Variables that the engine's process gets."""
        ...

    @property
    def interpreter(self) -> Path:
        """The Python that the engine's command line starts with; it exists after :meth:`prepare`."""
        ...

    def prepare(self, report: Report) -> None:
        """Build it. Raises EnvironmentFailed."""
        ...


class Adapter(Weights, Protocol):
    """A LoRA adapter's directory, checked; :class:`outrider.models.checked.Adapter` is one."""

    @property
    def rank(self) -> int:
        """The largest of its modules; known after :meth:`prepare`."""
        ...


@runtime_checkable
class Engine(Server, Protocol):
    """One replica of an engine, as a ``serve.py`` holds it."""

    @property
    def name(self) -> str:
        """The engine's short name: ``llamacpp``, ``vllm``, ``sglang``."""
        ...

    def version(self) -> str | None:
        """Version of the engine's package in its environment; None: not installed there (yet)."""
        ...

    def describe(self) -> dict[str, Any]:
        """``{"name": …, "flags": {…}}``, JSON-serialisable, without looking at the machine: for ``--describe``."""
        ...
