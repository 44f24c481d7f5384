"""The engine's process: a child that dies with its runner, and is ended politely before it is ended by force."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


class EngineProcess:
    """One child. Start it from the main thread: the death signal is tied to the thread that forked (prctl(2))."""

    def __init__(self, argv: Sequence[str], *, env: Mapping[str, str], log: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        parent = os.getpid()

        def die_with_parent() -> None:
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it died between fork and prctl
                os._exit(1)

        with log.open("ab") as output:
            self._child = subprocess.Popen(
                argv,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        """Its pid."""
        return self._child.pid

    def poll(self) -> int | None:
        """Its exit code (negative: signal), or None while it runs."""
        return self._child.poll()

    def stop(self, grace: float) -> None:
        """SIGTERM, and SIGKILL after ``grace`` seconds. Idempotent."""
        with contextlib.suppress(ProcessLookupError):
            self._child.terminate()
        try:
            self._child.wait(grace)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
