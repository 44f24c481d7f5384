"""Who holds a port of this machine's loopback."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Literal
from urllib.parse import urlsplit

import psutil

from outrider.placement.machine import Port
from outrider.placement.process import recorded
from outrider.spec.home import Home

_LOOPBACK = "127.0.0.1"
_TRIED = 100
"""Ports looked at for one that is free."""


def look_at_ports(home: Home, *, gateway: int, controller: int) -> tuple[Port, Port]:
    """For each whether it is free, held by this home's own process, or by whom; then with a free one near it."""
    wanted = {gateway, controller}
    return _look(home, "gateway", gateway, wanted), _look(home, "controller", controller, wanted)


def _look(home: Home, purpose: Literal["gateway", "controller"], number: int, wanted: set[int]) -> Port:
    if _listens_here(home, purpose, number):
        return Port(purpose, number, "ours")
    if _free(number):
        return Port(purpose, number, "free")
    candidates = (n for n in range(number + 1, min(number + 1 + _TRIED, 65536)) if n not in wanted and _free(n))
    return Port(purpose, number, "taken", _holder(number), next(candidates, None))


def _listens_here(home: Home, purpose: str, number: int) -> bool:
    file = home.run / f"{purpose}.pid"
    if recorded(file) is None:
        return False
    with contextlib.suppress(OSError, ValueError, KeyError):
        return urlsplit(str(json.loads(file.read_text())["url"])).port == number
    return False


def _free(number: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: TIME_WAIT holds no port
        try:
            probe.bind((_LOOPBACK, number))
        except OSError:
            return False
    return True


def _holder(number: int) -> str:
    with contextlib.suppress(psutil.Error, OSError):
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == number and connection.status == psutil.CONN_LISTEN:
                if connection.pid is None:
                    return "a process of another user"
                return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return "a process that cannot be seen from here"
