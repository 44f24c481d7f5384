"""Replicas as processes of this machine.

A replica is ``python -m outrider.app.runner serve.py``, detached; ``replicas/ID/replica.json`` says which process it
is, so that a restarted controller finds exactly the same ones.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from outrider.app.state import ReplicaState, tail, write_json
from outrider.placement import cgroup
from outrider.placement.base import Observation, Replica, ReplicaSpec
from outrider.placement.log import GrowingLog
from outrider.placement.process import ProcessIdentity, detach, end_group, identify, wait_gone
from outrider.spec.home import Home

_CONTROL_TIMEOUT = 2.0
_EXIT_LOG_LINES = 20


class LocalPlacement:
    """Implements :class:`~outrider.placement.base.Placement` with local processes."""

    def __init__(self, home: Home) -> None:
        self._home = home

    def start(self, spec: ReplicaSpec) -> Replica:
        """See :class:`Placement`. A failed start leaves no directory."""
        directory = self._directory(spec.id)
        directory.mkdir(mode=0o700, parents=True)
        argv = [sys.executable, "-m", "outrider.app.runner", str(spec.source)]
        argv += ["--name", spec.endpoint, "--directory", str(directory)]
        argv += ["--control", str(self._home.replica_socket(spec.id))]
        env = dict(
            os.environ, OUTRIDER_REPLICA_KEY=spec.key, OUTRIDER_CACHE=str(self._home.cache), PYTHONUNBUFFERED="1"
        )
        env.pop("OUTRIDER_KEY", None)
        group = None if spec.cpu is None else cgroup.make(spec.id, spec.cpu)
        try:
            identity = detach(argv, log=directory / "replica.log", env=env, cwd=spec.source.parent, group=group)
        except BaseException:
            cgroup.release(spec.id)
            shutil.rmtree(directory, ignore_errors=True)
            raise
        replica = Replica(spec, identity.pid, identity.started)
        record = {**asdict(spec), "source": str(spec.source), "pid": identity.pid, "started": identity.started}
        write_json(directory / "replica.json", record)
        return replica

    def observe(self, replica: Replica) -> Observation:
        """See :class:`Placement`."""
        if _identity(replica).alive():
            return Observation(True, self._ask(replica.spec.id), None)
        directory = self._directory(replica.spec.id)
        log = tuple(tail(directory / "replica.log", _EXIT_LOG_LINES))
        return Observation(False, None, _read_json(directory / "exit.json"), log)

    def drain(self, replica: Replica) -> None:
        """See :class:`Placement`. SIGTERM means the same to a runner whose control address does not answer."""
        _identity(replica).signal(signal.SIGTERM)

    def kill(self, replica: Replica) -> None:
        """See :class:`Placement`."""
        identity = _identity(replica)
        identity.signal_group(signal.SIGKILL)
        wait_gone(identity, 5.0)
        end_group(identity)

    def remove(self, replica: Replica) -> None:
        """See :class:`Placement`."""
        end_group(_identity(replica))
        cgroup.release(replica.spec.id)
        self._home.replica_socket(replica.spec.id).unlink(missing_ok=True)
        shutil.rmtree(self._directory(replica.spec.id), ignore_errors=True)

    def adopt(self) -> list[Replica]:
        """See :class:`Placement`. Without a record the start was cut short: what it began is ended and removed."""
        found = []
        for directory in sorted(self._home.replicas.glob("*")):  # none where no replica was ever started
            record = _read_json(directory / "replica.json")
            if record is None:
                _end_strays(directory)
                shutil.rmtree(directory, ignore_errors=True)
                continue
            pid, started = record.pop("pid"), record.pop("started")
            spec = ReplicaSpec(**{**record, "source": Path(record["source"])})
            found.append(Replica(spec, pid, started))
        return found

    def log(self, replica_id: str, lines: int) -> list[str] | None:
        """See :class:`Placement`."""
        directory = self._directory(replica_id)
        return tail(directory / "replica.log", lines) if directory.is_dir() else None

    def follow(self, replica_id: str, lines: int) -> GrowingLog | None:
        """See :class:`Placement`."""
        directory = self._directory(replica_id)
        return GrowingLog(directory / "replica.log", lines) if directory.is_dir() else None

    def _directory(self, replica_id: str) -> Path:
        return self._home.replicas / replica_id

    def _ask(self, replica_id: str) -> ReplicaState | None:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, KeyError):
            connection = _UnixConnection(self._home.replica_socket(replica_id))
            with contextlib.closing(connection):
                connection.request("GET", "/state")
                return ReplicaState.from_dict(json.loads(connection.getresponse().read()))
        saved = _read_json(self._directory(replica_id) / "state.json")
        with contextlib.suppress(ValueError, KeyError):
            return None if saved is None else ReplicaState.from_dict(saved)
        return None


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=_CONTROL_TIMEOUT)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _end_strays(directory: Path) -> None:
    needle = os.fsencode(directory)
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            identity = identify(int(entry.name))
            if identity is not None and needle in (entry / "cmdline").read_bytes().split(b"\0"):
                end_group(identity)


def _identity(replica: Replica) -> ProcessIdentity:
    return ProcessIdentity(replica.pid, replica.started)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None
