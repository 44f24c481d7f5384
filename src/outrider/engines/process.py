"""The engine's process: a child that dies with its runner, and is ended politely before it is ended by force."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from outrider.errors import ReplicaFailed

_PR_SET_PDEATHSIG = 1
_TAIL_BYTES = 64 * 1024
_SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OUTRIDER_KEY", "OUTRIDER_REPLICA_KEY")


def engine_variables(*layers: Mapping[str, str]) -> dict[str, str]:
    """The child's environment: the layers, later ones win, without the secrets that an engine has no use for."""
    merged: dict[str, str] = {}
    for layer in layers:
        merged.update(layer)
    return {name: value for name, value in merged.items() if name not in _SECRETS}


class EngineProcess:
    """One child, in its runner's process group.

    It gets no file descriptor but an empty standard input and the log, appended to. When the runner dies, however it
    dies, the kernel kills the child: the death signal is tied to the *thread* that forked (prctl(2)), so only the main
    thread may start one.

    Args:
        argv: the command; its first word is a path.
        env: the whole environment of the child.
        log: file that its output is appended to.

    Raises:
        ReplicaFailed: the command cannot be run.
        RuntimeError: started from another thread than the main one.
    """

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], log: Path) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("an engine is started from the main thread, or it would die with another one")
        prctl = ctypes.CDLL(None, use_errno=True).prctl
        parent = os.getpid()

        def die_with_parent() -> None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it died between fork and prctl
                os._exit(1)

        self._log = log
        try:
            with log.open("ab") as output:
                self._began = output.tell()
                self._child = subprocess.Popen(
                    argv,
                    env=dict(env),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    preexec_fn=die_with_parent,
                )
        except OSError as error:
            raise ReplicaFailed(
                f"Could not start {argv[0]}", why=error.strerror or str(error), remedy="Check the engine's environment."
            ) from error

    @property
    def pid(self) -> int:
        """Its pid."""
        return self._child.pid

    def poll(self) -> int | None:
        """Its exit code (negative: signal), or None while it runs."""
        return self._child.poll()

    def stop(self, grace: float) -> None:
        """SIGTERM, and SIGKILL after ``grace`` seconds; returns when it is gone. Idempotent."""
        with contextlib.suppress(ProcessLookupError):
            self._child.terminate()
        try:
            self._child.wait(grace)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def last_lines(self, count: int) -> list[str]:
        """The last lines that this child (not one before it) wrote to the log."""
        try:
            with self._log.open("rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(self._began, end - _TAIL_BYTES))
                return file.read().decode("utf-8", "replace").splitlines()[-count:]
        except OSError:
            return []
