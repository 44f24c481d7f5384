"""Sharing a port: only on purpose, and then so that whoever closes first loses nobody."""

from __future__ import annotations

import socket

import pytest

from outrider.errors import PortTaken
from outrider.gateway import listening


def listener(port: int = 0) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind(("127.0.0.1", port))
    found.listen(256)
    found.setblocking(False)
    return found


def accepted(one: socket.socket) -> int:
    count = 0
    while True:
        try:
            one.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def test_new_connections_go_to_the_second() -> None:
    with listener() as first:
        address = first.getsockname()
        with listener(address[1]) as second:
            listening.steer(second)
            for _ in range(100):
                socket.create_connection(address).close()
            assert (accepted(first), accepted(second)) == (0, 100)
            first.close()
            socket.create_connection(address).close()
            assert accepted(second) == 1
            with listener(address[1]) as third:  # the next one that takes over
                listening.steer(third)
                for _ in range(100):
                    socket.create_connection(address).close()
                assert (accepted(second), accepted(third)) == (0, 100)


def test_a_shared_port_is_taken_for_others() -> None:
    with listener() as first, pytest.raises(PortTaken), listening.refusals("127.0.0.1", first.getsockname()[1]):
        listening.probe("127.0.0.1", first.getsockname()[1])


def test_a_reserved_port_takes_no_connection() -> None:
    with listening.reserve("127.0.0.1", 0) as place:
        address = place.getsockname()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)
        with listener(address[1]) as one:
            socket.create_connection(address).close()
            assert accepted(one) == 1
