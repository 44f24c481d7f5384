"""An engine that is a Python program in an environment of its own: what vLLM and SGLang have in common."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.app.server import Launch, Progress, Report, Weights
from outrider.engines import warmup
from outrider.engines.base import EngineEnvironment
from outrider.engines.flags import flags
from outrider.engines.liveness import Liveness
from outrider.engines.normalise import NORMALISERS
from outrider.engines.probes import EngineAddress, completion_text, lists_model
from outrider.engines.process import EngineProcess, engine_variables
from outrider.engines.speculation import OFF, Speculation
from outrider.errors import EngineMissing, InvalidInput, PortTaken, ReplicaFailed

_LOG_LINES = 200
_DEEP_TIMEOUT = 30.0
"""Seconds that one token from an idle engine may take (30: its first one after a pause may wait for a compiler)."""
_TAKEN = ("Address already in use", "address already in use", "errno 98", "Errno 98")
_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
"""Of the runner's Python, not of the engine's."""


class PythonEngine:
    """One replica. A subclass says how its command line, its variables and its name are made.

    Attributes:
        name: Outrider's name for the engine. title: its own. packages: distributions that hold it, the usual one first.
        taken: flags that are not for ``extra``, and what to use instead.
    """

    name: str
    title: str
    packages: Sequence[str]
    taken: Mapping[str, str]

    def __init__(
        self,
        weights: Weights,
        environment: EngineEnvironment,
        *,
        options: Mapping[str, Any],
        speculation: Speculation | None,
        payloads: Sequence[Mapping[str, Any]],
        extra: Mapping[str, Any] | None,
        arguments: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.weights = weights
        self.environment = environment
        self.options = dict(options)
        self.speculation = speculation or OFF
        self.payloads = tuple(payloads)
        self.extra = flags(self.name).checked(extra or {}, self.taken)
        self.arguments = tuple(arguments)
        self._path: Path | None = None
        self._drafter: Path | None = None
        self._process: EngineProcess | None = None
        self._address: EngineAddress | None = None
        self._served = ""
        self._liveness = Liveness(clock)

    # What a subclass says.

    def command(self, launch: Launch) -> list[str]:
        """The words after the interpreter. Free of secrets: a command line is public."""
        raise NotImplementedError

    def variables(self, launch: Launch) -> dict[str, str]:
        """Variables of its own, the key among them where the engine reads it there."""
        raise NotImplementedError

    # What all have.

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
        return {"name": self.name, "flags": {**given, **more, **self.extra}}

    def prepare(self, report: Report) -> None:
        """Environment, engine, flags, weights, drafter; in this order: what is quick to refuse is refused first.

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

    def start(self, launch: Launch) -> None:
        """Start the child. Raises ReplicaFailed: the interpreter cannot be run."""
        argv = [str(self.environment.interpreter), *self.command(launch), *self.arguments]
        self._served = launch.name
        self._address = EngineAddress(f"http://{launch.host}:{launch.port}", launch.key)
        env = self._environ({**self.environment.env, **self.variables(launch), **launch.env})
        self._process = EngineProcess(argv, env=env, log=launch.log)

    @property
    def pid(self) -> int | None:
        """The child's pid, or None before :meth:`start`."""
        return self._process.pid if self._process else None

    def poll(self) -> int | None:
        """The child's exit code (negative: signal), or None while it runs or before it was started."""
        return self._process.poll() if self._process else None

    def probe(self) -> bool:
        """Port open, key taken, model listed; and from time to time (see :mod:`outrider.engines.liveness`) tokens move.

        Raises:
            PortTaken: the child ended because somebody else listens on its port.
            ReplicaFailed: the child ended; ``details["log"]`` has its last lines.
        """
        if self._process is None or self._address is None:
            return False
        code = self._process.poll()
        if code is not None:
            raise self._ended(code, self._process.last_lines(_LOG_LINES), self._address)
        return lists_model(self._address, self._served) and self._liveness.alive(self._page, self._one_token)

    def warm_up(self, report: Report) -> None:
        """The payloads, each once, each with a right answer. Raises ReplicaFailed."""
        if self._address is not None:
            warmup.run(self._address, self._served, self.payloads, report)
            self._liveness.begin()

    def stop(self, grace: float) -> None:
        """End the child: it finishes the requests in flight, for ``grace`` seconds at most."""
        self._liveness.end()
        if self._process is not None:
            self._process.stop(grace)

    @property
    def metrics_url(self) -> str | None:
        """Prometheus text, which :mod:`outrider.engines.normalise` reads."""
        return f"{self._address.url}/metrics" if self._address else None

    def ask(self, path: str, body: Mapping[str, Any], *, timeout: float) -> str:
        """POST to the running engine with its key; the text of the answer.

        Raises:
            ReplicaFailed: it was not started, does not answer, or answers with an error status.
        """
        if self._address is None:
            raise ReplicaFailed(f"{self.title} was not started", remedy="Start it first.")
        try:
            return self._address.text(path, body, timeout=timeout)
        except OSError as error:
            raise ReplicaFailed(f"{self.title} did not answer {path}", why=str(error), remedy="See its log.") from error

    def _page(self) -> Any:
        assert self._address is not None
        return NORMALISERS[self.name](self._address.text("/metrics", timeout=2.0))

    def _one_token(self) -> None:
        assert self._address is not None
        body = {"model": self._served, "prompt": "1", "max_tokens": 1, "temperature": 0}
        completion_text(self._address.json("/v1/completions", body, timeout=_DEEP_TIMEOUT))

    def _environ(self, own: Mapping[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        return engine_variables(inherited, own)

    def _ended(self, code: int, log: list[str], address: EngineAddress) -> PortTaken | ReplicaFailed:
        if any(word in line for line in log for word in _TAKEN):
            return PortTaken(
                f"The engine cannot listen on {address.url.removeprefix('http://')}",
                why="another process listens there",
                remedy="Leave port out of @app.server() for a free one.",
            )
        cause = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        errors = [line.strip() for line in log if "Error" in line or "error:" in line]
        said = (errors or [line.strip() for line in log if line.strip()] or [""])[-1]
        return ReplicaFailed(
            f"{self.title} ended ({cause})",
            why=said[:300] or None,
            remedy="See the engine's log.",
            details={"code": code, "log": log},
        )


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
