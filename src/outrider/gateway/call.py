"""One request as it came off the wire, complete."""

from __future__ import annotations

from typing import NamedTuple


class Call(NamedTuple):
    """A request whose last byte has been read.

    Attributes:
        method: ``GET``, ``POST``, …
        target: request target, as sent (origin form).
        headers: names lowercased, in order.
        body: decoded from chunks.
        keep_alive: whether the connection may serve another request.
        http_1_1: whether the client understands chunked replies.
        completed: monotonic seconds at the last byte.
    """

    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    keep_alive: bool
    http_1_1: bool
    completed: float

    def header(self, name: bytes) -> bytes | None:
        """The first header of that (lowercase) name."""
        for mine, value in self.headers:
            if mine == name:
                return value
        return None
