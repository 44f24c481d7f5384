"""A request as the replica gets it: the client's own, less what is not the replica's business."""

from __future__ import annotations

import re
from collections.abc import Callable

from outrider.gateway.call import Call
from outrider.gateway.upstream import NOT_FORWARDED, Pool

_SANE_ID = re.compile(rb"[A-Za-z0-9._:\-]{1,128}")


def request_id(call: Call, new_id: Callable[[], str]) -> str:
    """The client's ``x-request-id`` where it is safe to put into a header and a log, else a new one."""
    given = call.header(b"x-request-id")
    return given.decode("ascii") if given is not None and _SANE_ID.fullmatch(given) else new_id()


class Outgoing:
    """A request that can be sent to any replica of its endpoint.

    Attributes:
        adds_usage: whether ``stream_options.include_usage`` is the gateway's and not the client's.
    """

    __slots__ = ("_body", "_head", "_method", "_target", "adds_usage")

    def __init__(self, call: Call, target: str, body: bytes, request_id: str, *, adds_usage: bool) -> None:
        self.adds_usage = adds_usage
        self._method = call.method
        self._target = target
        self._body = body
        dropped = NOT_FORWARDED
        options = [value.lower() for name, value in call.headers if name == b"connection"]
        if options and options not in ([b"keep-alive"], [b"close"]):
            dropped = dropped | {name.strip() for name in b",".join(options).split(b",")}
        if adds_usage:
            dropped = dropped | {b"accept-encoding"}  # the event to drop could not be found in a compressed stream
        lines = [b"%b: %b\r\n" % header for header in call.headers if header[0] not in dropped]
        lines.append(b"x-request-id: %b\r\n" % request_id.encode("ascii"))
        if body or call.method in ("POST", "PUT", "PATCH"):
            lines.append(b"content-length: %d\r\n" % len(body))
        self._head = b"".join(lines)

    def encode(self, pool: Pool) -> bytes:
        """The whole request for one replica, with that replica's key."""
        line = f"{self._method} {pool.prefix}{self._target} HTTP/1.1\r\n".encode("latin-1")
        return b"".join((line, pool.preamble, self._head, b"\r\n", self._body))
