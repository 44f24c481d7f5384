"""Looks at this machine, whole, and changes nothing: no directory is made, no file written, no port kept."""

from __future__ import annotations

import os
import resource
import sys
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path

import psutil

from outrider.app import uv
from outrider.placement import cgroup, clock, nvidia, processor
from outrider.placement.discover import nearest_existing
from outrider.placement.installed import installed_engines
from outrider.placement.machine import (
    Clock,
    Directory,
    Interpreter,
    Machine,
    Memory,
    OpenFiles,
    Sockets,
)
from outrider.placement.ports import look_at_ports
from outrider.spec.home import Home

_LONGEST_ID = "0123456789abcdef"
"""As long as the id of a replica can be."""


def examine(home: Home, *, gateway_port: int, controller_port: int, now: datetime) -> Machine:
    """Look at everything. Takes under a second, and longer where installed engines import slowly."""
    limits = cgroup.limits()
    return Machine(
        processor=processor.look(limits.cores),
        memory=Memory(psutil.virtual_memory().total, psutil.virtual_memory().available, limits.memory_bytes),
        home=_directory("OUTRIDER_HOME", home.root, private=True),
        cache=_directory("OUTRIDER_CACHE", home.cache, private=False),
        sockets=_sockets(home),
        quota_obstacle=cgroup.obstacle(),
        nvidia=nvidia.look(),
        engines=installed_engines(home),
        ports=look_at_ports(home, gateway=gateway_port, controller=controller_port),
        clock=Clock(now, clock.synchronised(), clock.source()),
        open_files=_open_files(),
        python=Interpreter(
            version=sys.version_info[:3],
            executable=Path(sys.executable),
            pip=find_spec("pip") is not None,
            uv=uv.present(home.cache, os.environ),
        ),
    )


def _open_files() -> OpenFiles:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = hard == resource.RLIM_INFINITY
    return OpenFiles(sys.maxsize if soft == resource.RLIM_INFINITY else soft, None if unlimited else hard)


def _directory(variable: str, path: Path, *, private: bool) -> Directory:
    nearest = nearest_existing(path)
    return Directory(
        variable=variable,
        path=path,
        nearest=nearest,
        writable=_usable(path, nearest, private=private),
        free_bytes=psutil.disk_usage(str(nearest)).free,
        file_system=_file_system(nearest),
    )


def _usable(path: Path, nearest: Path, *, private: bool) -> bool:
    """Whether this user can make things there; ``private``: only in a directory of their own, as Home.create asks."""
    if private and nearest == path and path.stat().st_uid != os.getuid():
        return False
    return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)


def _file_system(path: Path) -> str:
    real = path.resolve()
    mounts = [part for part in psutil.disk_partitions(all=True) if real.is_relative_to(part.mountpoint)]
    # Of two mounts on one point the later one covers the earlier.
    return max(enumerate(mounts), key=lambda m: (len(m[1].mountpoint), m[0]))[1].fstype if mounts else "unknown"


def _sockets(home: Home) -> Sockets:
    nearest = nearest_existing(home.sockets)
    longest = max(home.api_socket, home.gateway_socket, home.replica_socket(_LONGEST_ID), key=lambda p: len(str(p)))
    return Sockets(
        path=home.sockets,
        longest=len(os.fsencode(longest)),
        writable=_usable(home.sockets, nearest, private=True),
    )
