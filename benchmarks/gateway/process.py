"""Processes of the benchmark: started on one core, waited for, weighed by the kernel's counts, ended by their id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

_TICKS = os.sysconf("SC_CLK_TCK")
_START = 90.0
"""Seconds a peer gets to listen: LiteLLM imports for ten of them on a busy machine."""


def cores() -> tuple[int, int] | None:
    """The core for engine and client and the one for the proxy, or None where there are not two."""
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[1]) if len(allowed) > 1 else None


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def started(
    argv: Sequence[str], log: Path, *, core: int | None, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in its own group, pinned before it runs; the whole group is ended on leaving."""
    pin = [] if core is None else ["taskset", "--cpu-list", str(core)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*pin, *argv],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def listening(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Wait until a process listens.

    Raises:
        RuntimeError: it ended, or did not within 90 s; with the end of its log.
    """
    deadline = time.monotonic() + _START
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"it does not listen on port {port}; its log ends: {log.read_text(errors='replace')[-2000:]}")


class Meter:
    """CPU time and memory of a process and its children, as ``/proc/PID/stat`` has them."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)

    def cpu(self) -> float:
        """Seconds of user and system time so far, all threads: the tick is 10 ms, the sum behind it exact."""
        return sum(_stat(pid) for pid in self._pids())

    def memory(self) -> int:
        """Resident bytes."""
        return sum(psutil.Process(pid).memory_info().rss for pid in self._pids())

    def _pids(self) -> list[int]:
        return [self._root.pid, *(child.pid for child in self._root.children(recursive=True))]


def _stat(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            continue
        break
