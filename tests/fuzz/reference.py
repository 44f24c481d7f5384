"""How h11 reads a client's bytes: a second opinion, written by others, that the gateway's reading is compared with.

h11 is laxer than the gateway in places (bare line feeds, folded lines), and the gateway may refuse what h11 takes. What
the gateway lets through, though, must be what h11 read there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import h11

_LARGEST_HEAD = 1 << 24
_SPACES = re.compile(rb"\A([A-Z-]+) +([^ \r\n]+) +(?=HTTP/)")
_HOST = re.compile(rb"(?im)^host[ \t]*:")


class Meant(NamedTuple):
    """One request as h11 reads it; header names lowercased."""

    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    http_1_1: bool

    def values(self, name: bytes) -> list[bytes]:
        """All values of a header, in order."""
        return [value for mine, value in self.headers if mine == name]


def read(data: bytes) -> list[Meant]:
    """The whole requests at the beginning of a connection's bytes, up to the first that is none."""
    found: list[Meant] = []
    try:
        while data:
            connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_LARGEST_HEAD)
            connection.receive_data(_plain(data))
            meant = next_request(connection)
            if meant is None or meant.method == "PRI":  # not a request but HTTP/2's first words (RFC 9113 §3.4)
                break
            found.append(meant)
            if not goes_on(meant):
                break
            data = connection.trailing_data[0]
    except h11.RemoteProtocolError:
        pass
    return found


def next_request(connection: h11.Connection) -> Meant | None:
    """The next request of a connection, or None where it is not complete.

    Raises:
        h11.RemoteProtocolError: it is no request.
    """
    head: h11.Request | None = None
    body = b""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            method = bytes(head.method).decode("ascii")
            headers = tuple((bytes(name), bytes(value)) for name, value in head.headers)
            return Meant(method, bytes(head.target), headers, body, bytes(head.http_version) == b"1.1")
        else:
            return None


def _plain(data: bytes) -> bytes:
    """The same without three liberties that the gateway allows and h11 does not.

    Empty lines before a request and further spaces in its first line (RFC 9112 §2.2, §3), and no Host: the gateway
    needs none to know the endpoint.
    """
    data = _SPACES.sub(rb"\1 \2 ", data.lstrip(b"\r\n"), count=1)
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end or _HOST.search(head):
        return data
    line, more, lines = head.partition(b"\r\n")
    return line + b"\r\nHost: none" + more + lines + end + rest


def goes_on(meant: Meant) -> bool:
    """Whether another request may follow on the connection (RFC 9112 §9.3); old proxies' own header counts, too."""
    values = meant.values(b"connection") + meant.values(b"proxy-connection")
    options = {option.strip().lower() for value in values for option in value.split(b",")}
    if not meant.http_1_1:
        return b"keep-alive" in options  # also where it says "close" as well: the gateway's parser then keeps it open
    return b"close" not in options
