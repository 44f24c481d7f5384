"""The port the gateway listens on: its own alone, or shared with the gateway that it takes over from.

Gateways bind with SO_REUSEPORT, so that a new one can listen while the old one finishes. That would let two that know
nothing of each other share a port in silence; so a port is probed first by whoever was not told to share it.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from outrider.errors import PermissionRefused, PortTaken

_ATTACH_REUSEPORT_CBPF = 51
_BPF_RETURN = 0x06
"""BPF_RET | BPF_K: the answer is the constant, here the index of a socket."""


def probe(host: str, port: int) -> None:
    """See that nobody listens on a port, by binding to it alone for a moment.

    Raises:
        OSError: somebody does, or it may not be bound.
    """
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with socket.socket(family, kind, protocol) as alone:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind(address)


def steer(second: socket.socket) -> None:
    """Send every new connection of a shared port to the second socket that listened there, not the first.

    The first can then take in all that had reached it and close, and no connection is reset in between. Once it has
    closed there is no second socket, and the kernel goes back to spreading (socket(7)).

    Raises:
        OSError: the kernel does not do that.
    """
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", _BPF_RETURN, 0, 0, 1))
    program = struct.pack("HP", 1, ctypes.addressof(instruction))
    second.setsockopt(socket.SOL_SOCKET, _ATTACH_REUSEPORT_CBPF, program)


def reserve(host: str, port: int) -> socket.socket:
    """A socket bound to a port and never listening: it says which port 0 is, and keeps it for those that will listen.

    Raises:
        OSError: the port may not be bound.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    place = socket.socket(family, kind, protocol)
    try:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        place.bind(address)
    except OSError:
        place.close()
        raise
    return place


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
