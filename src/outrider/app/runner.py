"""``python -m outrider.app.runner serve.py``: one replica of what the file declares.

The runner leads its process session; what it starts stays in its group and dies with it. It goes through the stages in
its main thread while a thread answers the control address, leaves ``exit.json`` behind, and never prints a traceback
where a line will do. ``--describe`` only reads the declaration, as JSON on standard output.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from outrider.app.app import Declaration
from outrider.app.control_address import ControlServer
from outrider.app.hooks import adapt
from outrider.app.server import Launch, Server, Stage
from outrider.app.source import describe, load
from outrider.app.state import StateFile, write_exit
from outrider.errors import OutriderError, PortTaken, ReplicaFailed, StartTimeout

_PROBE_INTERVAL = 0.1
_LIVENESS_INTERVAL = 1.0
_LIVENESS_FAILURES = 10
"""Failed liveness probes in a row before a running engine counts as hung (10: a long prefill may block one second)."""


@dataclass(frozen=True, slots=True)
class Options:
    """The command line: file, endpoint name, directory of the replica, control socket."""

    file: Path
    name: str | None
    directory: Path
    control: Path


class _Left(BaseException):
    """Asked to leave while preparing. No Exception: a download's own error handling must not take it for its own."""


class Runner:
    """Drives one :class:`~outrider.app.server.Server` from pending to stopped."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._log = options.directory / "replica.log"
        self._state = StateFile(options.directory / "state.json")
        self._leave = threading.Event()
        self._deadline: float | None = None
        self._ended = threading.Event()

    def run(self) -> int:
        """Run until asked to stop or until the server dies; the exit code of the process."""
        control = ControlServer(self._options.control, self._state, self._leave.set)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked_to_leave)
        threading.Thread(target=self._watch_deadline, name="deadline", daemon=True).start()
        try:
            return self._guarded()
        finally:
            self._ended.set()
            control.close()

    def _asked_to_leave(self, *_: object) -> None:
        self._leave.set()
        if self._state.state.stage is Stage.PREPARING:
            raise _Left  # a download may take hours and asks nobody: it is interrupted, and resumed another time

    def _guarded(self) -> int:
        try:
            with contextlib.suppress(_Left):
                self._live()
        except OutriderError as error:
            return self._fail(error)
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            return self._fail(
                ReplicaFailed(
                    "The server's own code failed",
                    why=f"{type(error).__name__}: {error}",
                    remedy="Its log has the traceback.",
                )
            )
        write_exit(self._exit, code=0, reason="stopped", error=None, log=self._log)
        self._state.enter(Stage.STOPPED)
        return 0

    def _live(self) -> None:
        app, cls, declaration = load(self._options.file)
        server = adapt(cls, declaration)
        self._state.enter(Stage.PREPARING)
        server.prepare(self._state.report)
        if self._leave.is_set():
            return
        launch = self._launch(self._options.name or app.name, declaration)
        self._state.enter(Stage.STARTING)
        self._deadline = time.monotonic() + declaration.startup_timeout
        try:
            server.start(launch)
            if self._await_ready(server, launch):
                self._watch(server)
        finally:
            self._deadline = None
            if self._leave.is_set():
                self._state.enter(Stage.DRAINING)
            server.stop(declaration.exit_grace_period)

    def _launch(self, name: str, declaration: Declaration) -> Launch:
        return Launch(
            name=name,
            host="127.0.0.1",
            port=_port(declaration.port),
            key=os.environ.pop("OUTRIDER_REPLICA_KEY", "") or secrets.token_urlsafe(24),
            log=self._log,
            scratch=self._options.directory,
        )

    def _await_ready(self, server: Server, launch: Launch) -> bool:
        url = f"http://{launch.host}:{launch.port}"
        while not server.probe():
            _check_alive(server)
            if self._leave.wait(_PROBE_INTERVAL):
                return False
        self._state.enter(Stage.WARMING, engine_url=url, metrics=server.metrics_url)
        server.warm_up(self._state.report)
        _check_alive(server)
        self._deadline = None
        self._state.enter(Stage.READY)
        return True

    def _watch(self, server: Server) -> None:
        failures = 0
        while not self._leave.wait(_LIVENESS_INTERVAL):
            _check_alive(server)
            failures = 0 if server.probe() else failures + 1
            if failures >= _LIVENESS_FAILURES:
                raise ReplicaFailed(
                    "The engine stopped answering",
                    why=f"{failures} probes in a row failed while its process lives",
                    remedy="It is replaced; its last log lines are in the event.",
                )

    def _watch_deadline(self) -> None:
        # A hook or a warm-up that hangs holds the main thread, so only another thread can end the replica.
        while not self._ended.wait(0.2):
            deadline = self._deadline
            if deadline is not None and time.monotonic() > deadline:
                stage = self._state.state.stage
                self._fail(
                    StartTimeout(
                        f"The server was not ready within its startup_timeout (stage: {stage.value})",
                        why="nothing listens on its port" if stage is Stage.STARTING else "the warm-up did not end",
                        remedy="Listen on self.port, or raise startup_timeout in @app.server().",
                    )
                )
                self._options.control.unlink(missing_ok=True)
                os.killpg(0, signal.SIGKILL) if os.getpgrp() == os.getpid() else os._exit(1)

    def _fail(self, error: OutriderError) -> int:
        print(f"outrider: {error}", file=sys.stderr, flush=True)
        write_exit(self._exit, code=error.exit_code, reason=error.what, error=error.problem(), log=self._log)
        self._state.enter(Stage.FAILED, error.what)
        return error.exit_code

    @property
    def _exit(self) -> Path:
        return self._options.directory / "exit.json"


def _check_alive(server: Server) -> None:
    code = server.poll()
    if code is not None:
        cause = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        raise ReplicaFailed(f"The engine's process ended ({cause})", remedy="Its last log lines say why.")


def _port(fixed: int | None) -> int:
    with socket.socket() as probe:
        # As the engine will bind it: a listener's leftover TIME_WAIT must not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", fixed or 0))
        except OSError as error:
            raise PortTaken(
                f"Port {fixed} is taken", why=error.strerror, remedy="Leave port out of @app.server() for a free one."
            ) from error
        return int(probe.getsockname()[1])


def main(argv: list[str] | None = None) -> int:
    """Entry point. Exit codes are those of :mod:`outrider.errors`."""
    parser = argparse.ArgumentParser(prog="python -m outrider.app.runner", description="Run one replica of a serve.py.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--describe", action="store_true", help="print the declaration as JSON and exit")
    parser.add_argument("--name", help="endpoint name (default: the App's)")
    parser.add_argument("--directory", type=Path, help="the replica's directory (default: .outrider beside the file)")
    parser.add_argument("--control", type=Path, help="Unix socket to answer on (default: control.sock in --directory)")
    arguments = parser.parse_args(argv)
    file = arguments.file.absolute()
    if arguments.describe:
        return _describe(file)
    directory = (arguments.directory or file.parent / ".outrider").absolute()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Runner(Options(file, arguments.name, directory, arguments.control or directory / "control.sock")).run()


def _describe(file: Path) -> int:
    try:
        print(json.dumps(describe(file)))
    except OutriderError as error:
        print(json.dumps(error.problem()))
        return error.exit_code
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a thread that a serve.py left behind must not keep the replica alive
