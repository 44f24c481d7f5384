"""Peers that vanish without a word (power, cable, a firewall's memory): the kernel finds out, no timer here does."""

from __future__ import annotations

import socket
from typing import Protocol

IDLE = 30
"""Seconds of silence after which the kernel asks a peer whether it is still there (TCP_KEEPIDLE)."""

INTERVAL = 10
"""Seconds between two such questions (TCP_KEEPINTVL); after :data:`QUESTIONS` of them without an answer it is gone."""

QUESTIONS = 3
"""How many (TCP_KEEPCNT): two lost packets in a row happen."""

UNANSWERED = (IDLE + QUESTIONS * INTERVAL) * 1000
"""Milliseconds that bytes may go unacknowledged (TCP_USER_TIMEOUT, RFC 5482): as long as the questions take."""


class Options(Protocol):
    """What of a socket is needed here; uvloop's sockets are none of the standard library's."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        """As :meth:`socket.socket.setsockopt`."""
        ...


def watch(connection: Options) -> None:
    """Have a connection end within a minute of its peer's vanishing. On a listening socket: every one it accepts."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, IDLE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, INTERVAL)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, QUESTIONS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNANSWERED)
