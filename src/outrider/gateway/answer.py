"""A replica's answer on its way to the client: framed anew, watched, and never cut without the client noticing."""

from __future__ import annotations

from http import HTTPStatus

from outrider.gateway.call import Call
from outrider.gateway.responses import error_body, error_event
from outrider.gateway.streams import BodyObserver, EventObserver, Usage
from outrider.gateway.upstream import Connection

_PHRASES = {int(status): status.phrase.encode() for status in HTTPStatus}


class Answer:
    """One answer.

    Attributes:
        status: HTTP status.
        started: monotonic seconds at its first byte from the replica.
        keep: whether the client's connection serves on after it.

    Args:
        connection: where its head has just come from.
        call: what it answers.
        keep: whether the client's connection may serve on.
        own: header lines that the gateway adds.
        reads: whether usage and content are looked for.
        drop_usage: whether the usage event of a stream is taken out.
    """

    __slots__ = ("_chunked", "_events", "_head", "_json", "_target", "keep", "started", "status")

    def __init__(
        self, connection: Connection, call: Call, *, keep: bool, own: bytes, reads: bool, drop_usage: bool
    ) -> None:
        self.status = connection.status
        self._target = call.target.partition("?")[0]
        self.started = connection.started
        readable = reads and not connection.encoded
        is_stream = connection.content_type.startswith(b"text/event-stream")
        self._events = EventObserver(drop_usage=drop_usage) if readable and is_stream else None
        self._json = BodyObserver() if readable and not is_stream else None
        bodiless = call.method == "HEAD" or self.status in (204, 304)
        length = connection.length if self._events is None else None  # dropping an event changes the length
        self._chunked = not bodiless and length is None and call.http_1_1
        self.keep = keep and (self._chunked or bodiless or length is not None)
        framing = b""
        if self._chunked:
            framing = b"transfer-encoding: chunked\r\n"
        elif length is not None and self.status != HTTPStatus.NO_CONTENT:
            framing = b"content-length: %d\r\n" % length
        self._head = b"".join(
            (
                b"HTTP/1.1 %d %b\r\n" % (self.status, _PHRASES.get(self.status, b"")),
                *connection.headers,
                own,
                framing,
                b"" if self.keep else b"connection: close\r\n",
                b"\r\n" if call.http_1_1 or not self.keep else b"connection: keep-alive\r\n\r\n",
            )
        )

    @property
    def first(self) -> float | None:
        """When the first content event came; None for what is no stream."""
        return self._events.first if self._events is not None else None

    @property
    def last(self) -> float | None:
        """When the last content event came."""
        return self._events.last if self._events is not None else None

    def usage(self) -> Usage:
        """Tokens, where the answer said."""
        observer = self._events or self._json
        return observer.usage() if observer is not None else Usage()

    def take(self, data: bytes, now: float, *, ended: bool) -> bytes:
        """What came of the body; gives what goes to the client, the head with the first of it."""
        if self._events is not None:
            data = self._events.feed(data, now) if data else data
            if ended:
                data += self._events.held
        elif self._json is not None and data:
            self._json.feed(data)
        head, self._head = self._head, b""
        if not self._chunked:
            return head + data if head else data
        return b"".join((head, b"%x\r\n%b\r\n" % (len(data), data) if data else b"", b"0\r\n\r\n" if ended else b""))

    def broken(self, message: str, *, status: int, code: str) -> bytes:
        """What a client is told when the rest will never come: an error event in a stream, nothing in a JSON body."""
        if self._events is None:
            return b""
        event = error_event(error_body(status, message, code=code)["error"], self._target)
        return b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event) if self._chunked else event
