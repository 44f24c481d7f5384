"""The port the gateway listens on: its own alone, or shared with the gateway that it takes over from.

Gateways bind with SO_REUSEPORT, so that a new one can listen while the old one finishes. That would let two that know
nothing of each other share a port in silence; so a port is probed first by whoever was not told to share it.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from outrider.errors import PermissionRefused, PortTaken


def probe(host: str, port: int) -> None:
    """See that nobody listens on a port, by binding to it alone for a moment.

    Raises:
        OSError: somebody does, or it may not be bound.
    """
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind, protocol) as alone:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind(address)


@contextmanager
def refusals(host: str, port: int) -> Iterator[None]:
    """Say why a port cannot be listened on.

    Raises:
        PortTaken, PermissionRefused: in place of the OSError met inside.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM):
            raise PermissionRefused(
                f"Cannot listen on {host}:{port}", why=error.strerror, remedy="Choose a port above 1023."
            ) from error
        raise PortTaken(
            f"Cannot listen on {host}:{port}",
            why="another process listens there" if error.errno == errno.EADDRINUSE else str(error),
            remedy="Stop that process or choose another --port.",
        ) from error
