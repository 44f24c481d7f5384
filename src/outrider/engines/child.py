"""An engine's child process, from its start to its end: probed, warmed up, asked, ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from outrider.app.server import Launch, Report
from outrider.engines import warmup
from outrider.engines.liveness import Liveness
from outrider.engines.normalise import NORMALISERS, EngineMetrics
from outrider.engines.probes import EngineAddress, completion_text, lists_model
from outrider.engines.process import EngineProcess
from outrider.errors import PortTaken, ReplicaFailed

_LOG_LINES = 200
_DEEP_TIMEOUT = 30.0
"""Seconds that one token from an idle engine may take (30: its first one after a pause may wait for a compiler)."""
_TAKEN = ("Address already in use", "address already in use", "errno 98", "Errno 98")


class EngineChild:
    """An engine's process from its start to its end; a subclass prepares and starts it.

    Attributes:
        name: Outrider's name for the engine.
        title: the engine's own.
        payloads: what is sent while warming up.
    """

    name: str
    title: str
    payloads: Sequence[Mapping[str, Any]]

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._process: EngineProcess | None = None
        self._address: EngineAddress | None = None
        self._served = ""
        self._liveness = Liveness(clock)

    def _begin(self, argv: Sequence[str], *, env: Mapping[str, str], launch: Launch) -> None:
        """Start the child. Raises ReplicaFailed: its first word cannot be run."""
        self._served = launch.name
        self._address = EngineAddress(f"http://{launch.host}:{launch.port}", launch.key)
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

    def _page(self) -> EngineMetrics:
        assert self._address is not None
        return NORMALISERS[self.name](self._address.text("/metrics", timeout=2.0))

    def _one_token(self) -> None:
        assert self._address is not None
        body = {"model": self._served, "prompt": "1", "max_tokens": 1, "temperature": 0}
        completion_text(self._address.json("/v1/completions", body, timeout=_DEEP_TIMEOUT))

    def _ended(self, code: int, log: list[str], address: EngineAddress) -> PortTaken | ReplicaFailed:
        if any(word in line for line in log for word in _TAKEN):
            return port_taken(address)
        cause = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        errors = [line.strip() for line in log if "Error" in line or "error:" in line]
        said = (errors or [line.strip() for line in log if line.strip()] or [""])[-1]
        return ReplicaFailed(
            f"{self.title} ended ({cause})",
            why=said[:300] or None,
            remedy="See the engine's log.",
            details={"code": code, "log": log},
        )


def port_taken(address: EngineAddress) -> PortTaken:
    """The error of an engine that could not listen."""
    return PortTaken(
        f"The engine cannot listen on {address.url.removeprefix('http://')}",
        why="another process listens there",
        remedy="Leave port out of @app.server() for a free one.",
    )
