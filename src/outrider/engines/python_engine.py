"""An engine that is a Python program in an environment of its own: what vLLM and SGLang have in common."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.app.server import Launch, Progress, Report, Weights
from outrider.engines import warmup
from outrider.engines.base import Adapter, EngineEnvironment
from outrider.engines.child import EngineChild
from outrider.engines.flags import flags
from outrider.engines.process import engine_variables
from outrider.engines.speculation import Speculation, checked_speculation
from outrider.errors import EngineMissing, InvalidInput
from outrider.spec.names import ADAPTER

_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""Of the runner's Python, not of the engine's."""
OVER_TLS = "Leave it out: the gateway speaks TLS (outrider up --tls-cert, --tls-key), its engines listen on loopback."
"""What to use instead of an engine's own TLS, over which no probe would reach it."""


class PythonEngine(EngineChild):
    """An engine that is a Python program in an environment of its own. A subclass says its command line and variables.

    Attributes:
        packages: distributions that hold it, the usual one first.
        taken: flags that are not for ``extra``, and what to use instead.
    """

    packages: Sequence[str]
    taken: Mapping[str, str]

    def __init__(
        self,
        weights: Weights,
        environment: EngineEnvironment,
        *,
        options: Mapping[str, Any],
        speculation: Speculation | None,
        adapters: Mapping[str, Adapter] | None,
        payloads: Sequence[Mapping[str, Any]],
        extra: Mapping[str, Any] | None,
        arguments: Sequence[str],
    ) -> None:
        super().__init__()
        self.weights = weights
        self.environment = environment
        self.options = dict(options)
        self.speculation = checked_speculation(self.title, speculation)
        self.adapters = checked_adapters(self.title, adapters or {})
        self.payloads = tuple(payloads)
        self.extra = flags(self.name).checked(extra or {}, self.taken)
        if isinstance(arguments, str):
            raise InvalidInput(
                f"{self.title}(arguments={arguments!r})", why="it is a list of words", remedy="Write arguments=[…]."
            )
        self.arguments = tuple(arguments)
        self._path: Path | None = None
        self._drafter: Path | None = None
        self._adapters: dict[str, Path] = {}

    def command(self, launch: Launch) -> list[str]:
        """The words after the interpreter. Free of secrets: a command line is public."""
        raise NotImplementedError

    def variables(self, launch: Launch) -> dict[str, str]:
        """Variables of its own, the key among them where the engine reads it there."""
        raise NotImplementedError

    @property
    def weights_path(self) -> str:
        """The weights' file or directory, after :meth:`prepare`."""
        return str(self._path)

    @property
    def drafter_path(self) -> str:
        """The drafter's file or directory, after :meth:`prepare`."""
        return str(self._drafter)

    def version(self) -> str | None:
        """Version of the engine's package in its environment; None: not installed there (yet)."""
        names = repr(tuple(self.packages))
        code = (
            "import importlib.metadata as m\n"
            f"for name in {names}:\n"
            "    try: print(m.version(name)); break\n"
            "    except m.PackageNotFoundError: pass"
        )
        argv = [str(self.environment.interpreter), "-c", code]
        try:
            done = subprocess.run(argv, capture_output=True, text=True, check=False, env=self._environ({}))
        except OSError:
            return None
        return done.stdout.strip() or None if done.returncode == 0 else None

    def describe(self) -> dict[str, Any]:
        """Name, options, speculation and flags, JSON-serialisable."""
        given = {key: value for key, value in self.options.items() if value is not None}
        more = {"speculation": self.speculation.describe()} if self.speculation.method != "off" else {}
        # Without adapters nothing is said of them, so that earlier files keep their digests.
        named = {"adapters": {name: _described(one) for name, one in self.adapters.items()}} if self.adapters else {}
        return {"name": self.name, "flags": {**given, **more, **self.extra}, **named}

    def prepare(self, report: Report) -> None:
        """Environment, engine, flags, weights, drafter, adapters; in this order: what is quick to refuse comes first.

        Raises:
            EngineMissing: its environment has no such engine. InvalidInput: its version lacks a flag.
            What environment and weights raise.
        """
        self.environment.prepare(report)
        report(Progress("checking the engine"))
        version = self.version()
        if version is None:
            raise EngineMissing(
                f"{self.title} is not installed",
                why=f"{self.environment.interpreter} has no package {' or '.join(self.packages)}",
                remedy=f"Write environment=Environment(packages=['{self.packages[0]}==…']) in serve.py.",
            )
        flags(self.name).check_version(self.extra, version)
        self._path = self.weights.prepare(report)
        if self.speculation.drafter is not None:
            self._drafter = self.speculation.drafter.prepare(report)
        self._adapters = {name: adapter.prepare(report) for name, adapter in self.adapters.items()}

    def start(self, launch: Launch) -> None:
        """Start the child. Raises ReplicaFailed: the interpreter cannot be run."""
        argv = [str(self.environment.interpreter), *self.command(launch), *self.arguments]
        env = self._environ({**self.environment.env, **self.variables(launch), **launch.env})
        self._begin(argv, env=env, launch=launch)

    def warm_up(self, report: Report) -> None:
        """The payloads, each once, then the first of them to each adapter. Raises ReplicaFailed."""
        super().warm_up(report)
        for name in self.adapters:
            if self._address is not None:
                report(Progress(f"warming up the adapter {name}"))
                warmup.run(self._address, f"{self._served}:{name}", self.payloads[:1], lambda progress: None)

    @property
    def adapter_paths(self) -> Mapping[str, str]:
        """The adapters' directories by name, after :meth:`prepare`."""
        return {name: str(path) for name, path in self._adapters.items()}

    @property
    def adapter_rank(self) -> int:
        """The largest rank of the adapters, after :meth:`prepare`; 0: there are none."""
        return max((adapter.rank for adapter in self.adapters.values()), default=0)

    def _environ(self, own: Mapping[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        return engine_variables(inherited, own)


def checked_adapters(engine: str, adapters: Mapping[str, Adapter]) -> dict[str, Adapter]:
    """The adapters as they came. Raises InvalidInput for a name that no request can carry behind a colon."""
    for name in adapters:
        if not re.fullmatch(ADAPTER, name):
            raise InvalidInput(
                f"{engine}: {name!r} is no adapter's name",
                why="a name has at most 64 letters, digits, dots, underscores and hyphens, the first a letter or digit",
                remedy="Correct it in serve.py.",
            )
    return dict(adapters)


def _described(adapter: Adapter) -> object:
    describe = getattr(adapter, "describe", None)
    return describe() if describe else type(adapter).__name__


def at_least(engine: str, least: float, **named: float | None) -> None:
    """Raises InvalidInput unless each is a number (a whole one where ``least`` is) of at least ``least``, or None."""
    kinds = (int,) if isinstance(least, int) else (int, float)
    for name, value in named.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds) or value < least):
            what = "a whole number" if kinds == (int,) else "a number"
            raise InvalidInput(
                f"{engine}({name}={value!r})", why=f"{name} is {what}, {least} or more", remedy="Correct it."
            )


def share(engine: str, **named: float | None) -> None:
    """Raises InvalidInput unless each lies above 0 and is at most 1, or is None."""
    for name, value in named.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1):
            raise InvalidInput(f"{engine}({name}={value!r})", why=f"{name} is a share, above 0 and at most 1")
