"""Processes that are not our children: how to start, name, watch and end them.

A replica (and the controller and gateway themselves) is started by a double fork, so that it is nobody's child whether
or not its starter was restarted since: one code path for both. A process is named by pid *and* start time, because pids
are reused. A zombie is dead: where pid 1 does not reap, an ended process stays visible for ever.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.errors import MachineFault

_DETACH = Path(__file__).with_name("detach.py")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """``pid`` and ``started`` (clock ticks since boot, field 22 of ``/proc/PID/stat``)."""

    pid: int
    started: int

    def alive(self) -> bool:
        """Whether this very process still runs."""
        found = _stat(self.pid)
        return found is not None and found == (self.started, True)

    def signal_group(self, number: int) -> None:
        """Signal the process group that it leads; nothing happens when it is gone."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def signal(self, number: int) -> None:
        """Signal the process alone."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def identify(pid: int) -> ProcessIdentity | None:
    """The identity of a running pid, or None."""
    found = _stat(pid)
    return ProcessIdentity(pid, found[0]) if found is not None and found[1] else None


def recorded(file: Path) -> ProcessIdentity | None:
    """The live process that a pid file (JSON with ``pid`` and ``started``) names, or None."""
    try:
        data = json.loads(file.read_text())
        identity = ProcessIdentity(int(data["pid"]), int(data["started"]))
    except (OSError, ValueError, KeyError):
        return None
    return identity if identity.alive() else None


def detach(
    argv: Sequence[str], *, log: Path, env: Mapping[str, str], cwd: Path, group: Path | None = None
) -> ProcessIdentity:
    """Start ``argv`` as the leader of a session of its own, output appended to ``log``, no open descriptors inherited.

    ``group`` is the ``cgroup.procs`` that it joins before it starts, so that whatever it starts is in the group too.

    Raises:
        MachineFault: it could not be started.
    """
    joined = None if group is None else str(group)
    request = json.dumps({"argv": list(argv), "log": str(log), "cwd": str(cwd), "group": joined})
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(_DETACH)],
        input=request,
        env=dict(env),
        capture_output=True,
        text=True,
        check=False,
    )
    identity = identify(int(done.stdout)) if done.returncode == 0 and done.stdout.strip().isdigit() else None
    if identity is None:
        raise MachineFault(
            f"Could not start {argv[0]}",
            why=(done.stderr.strip().splitlines() or ["it ended at once"])[-1],
            remedy=f"See {log}.",
        )
    return identity


def end(identity: ProcessIdentity, *, grace: float) -> bool:
    """SIGTERM to the process, SIGKILL to its group after ``grace`` seconds; True if it went by itself. Blocks."""
    identity.signal(signal.SIGTERM)
    gone = wait_gone(identity, grace)
    if not gone:
        identity.signal_group(signal.SIGKILL)
        wait_gone(identity, 5.0)
    return gone


def end_group(identity: ProcessIdentity) -> None:
    """SIGKILL what is left of the session of a leader that is gone (a user's own children have no death signal)."""
    for member in session_members(identity.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)


def session_members(session: int) -> list[int]:
    """Pids of the live processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _fields(int(entry.name))
            if fields is not None and int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def wait_gone(identity: ProcessIdentity, timeout: float) -> bool:
    """Wait until the process ended; False on timeout. Sleeps in the kernel where pidfd exists."""
    deadline = time.monotonic() + timeout
    try:
        descriptor = os.pidfd_open(identity.pid)
    except OSError:
        return not identity.alive()
    try:
        import select

        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while identity.alive():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            poll.poll(min(left, 1.0) * 1000)
        return True
    finally:
        os.close(descriptor)


def _stat(pid: int) -> tuple[int, bool] | None:
    fields = _fields(pid)
    return None if fields is None else (int(fields[19]), fields[0] not in "ZX")


def _fields(pid: int) -> list[str] | None:
    # The second field is the command in parentheses and may hold anything, so count from its last ')'.
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()
