"""A plain ``@app.server`` class as a :class:`~outrider.app.server.Server`.

The class starts something of its own in its ``@outrider.enter()`` methods (a subprocess, a thread) that listens on
``self.port``. Ready means: the port is open and ``health_path`` answers below 500 (a liveness check by TCP alone stays
green when requests stall, so a real request is made).
"""

from __future__ import annotations

import http.client
import os
from typing import Any

from outrider.app.app import Declaration, hooks
from outrider.app.server import Launch, Progress, Report, Server


class HookServer:
    """Adapts hooks to the protocol."""

    def __init__(self, cls: type, declaration: Declaration) -> None:
        self._cls = cls
        self._declaration = declaration
        self._instance: Any = None
        self._launch: Launch | None = None

    def prepare(self, report: Report) -> None:
        """Environment first, weights second: a wrong package list fails before gigabytes are fetched."""
        for name in ("environment", "weights"):
            part = getattr(self._cls, name, None)
            if part is not None:
                part.prepare(report)

    def start(self, launch: Launch) -> None:
        """Make the instance, set ``port``, ``host``, ``name`` on it and ``PORT`` in the environment, run its hooks."""
        self._launch = launch
        os.environ["PORT"] = str(launch.port)
        self._instance = self._cls()
        for name in ("port", "host", "name"):
            setattr(self._instance, name, getattr(launch, name))
        for hook in hooks(self._cls, "enter"):
            hook(self._instance)

    def poll(self) -> int | None:
        """The exit code of ``self.process``, where the class keeps one."""
        process = getattr(self._instance, "process", None)
        code = process.poll() if process is not None and hasattr(process, "poll") else None
        return code if isinstance(code, int) else None

    def probe(self) -> bool:
        """One request to ``health_path``."""
        if self._launch is None:
            return False
        connection = http.client.HTTPConnection(self._launch.host, self._launch.port, timeout=5)
        try:
            connection.request("GET", self._declaration.health_path)
            return connection.getresponse().status < 500
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def warm_up(self, report: Report) -> None:
        """The class's own ``warm_up(self)``, where it has one."""
        method = getattr(self._instance, "warm_up", None)
        if callable(method):
            report(Progress("warm_up"))
            method()

    def stop(self, grace: float) -> None:
        """Run the exit hooks; what they leave running ends with the process group."""
        instance, self._instance = self._instance, None
        if instance is None:
            return
        for hook in hooks(self._cls, "exit"):
            hook(instance)

    @property
    def metrics_url(self) -> str | None:
        """The class's ``metrics_url``, where it has one."""
        value = getattr(self._cls, "metrics_url", None)
        return value if isinstance(value, str) else None


class EngineServer(HookServer):
    """A class with an ``engine``: the engine is the server; the hooks run once it has started, and before it stops."""

    def __init__(self, cls: type, declaration: Declaration, engine: Server) -> None:
        super().__init__(cls, declaration)
        self._engine = engine

    def prepare(self, report: Report) -> None:
        """The engine prepares its own environment and weights."""
        self._engine.prepare(report)

    def start(self, launch: Launch) -> None:
        """Engine first, then the hooks."""
        self._engine.start(launch)
        super().start(launch)

    def poll(self) -> int | None:
        """The engine's exit code."""
        return self._engine.poll()

    def probe(self) -> bool:
        """The engine's own probe."""
        return self._engine.probe()

    def warm_up(self, report: Report) -> None:
        """The engine's warm-up, then the class's."""
        self._engine.warm_up(report)
        super().warm_up(report)

    def stop(self, grace: float) -> None:
        """Exit hooks, then the engine."""
        try:
            super().stop(grace)
        finally:
            self._engine.stop(grace)

    @property
    def metrics_url(self) -> str | None:
        """The engine's."""
        return self._engine.metrics_url


def adapt(cls: type, declaration: Declaration) -> Server:
    """The server of a declared class: its engine's, or its hooks'."""
    engine = getattr(cls, "engine", None)
    if engine is not None and isinstance(engine, Server):
        return EngineServer(cls, declaration, engine)
    return HookServer(cls, declaration)
