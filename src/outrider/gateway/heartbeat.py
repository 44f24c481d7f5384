"""Keeps the client of a held stream from giving up: 200 and a comment now and then, while no replica has room.

For the first 5 s nothing is sent, so that an error can still be plain HTTP with a status of its own. From then on the
client has its 200, and whatever goes wrong is an event of the stream. Comments (lines that begin with a colon, WHATWG
HTML §9.2.6) are no content: clients pass over them, and they count in no measure of time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from outrider.gateway.admission import Timer
from outrider.gateway.answer import Answer
from outrider.gateway.call import Call
from outrider.gateway.responses import error_body, error_event
from outrider.gateway.upstream import Connection

if TYPE_CHECKING:
    from outrider.gateway.server import Client

QUIET = 5.0
"""Seconds in which nothing is sent: most waits are over by then, and a client can act on a status of its own."""

EVERY = 5.0
"""Seconds between comments: proxies and clients that watch for silence take from 15 s on, mostly."""

_COMMENT = b": waiting for a replica\n\n"
_STREAM = b"text/event-stream"
_BODY_LIMIT = 64 * 1024


class Heartbeat:
    """The comments of one held stream.

    Attributes:
        begun: whether the client has got its 200.

    Args:
        client: who waits.
        call: what it asked for.
        later: ``loop.call_later``.
        own: gives the header lines that the gateway adds, when they are needed.
    """

    def __init__(
        self,
        client: Client,
        call: Call,
        later: Callable[[float, Callable[[], None]], Timer],
        own: Callable[[], bytes],
    ) -> None:
        self.begun = False
        self._client = client
        self._chunked = call.http_1_1
        self._target = call.target.partition("?")[0]
        self._keep = client.keeps(call) and call.http_1_1
        self._later = later
        self._own = own
        self._timer = later(QUIET, self._beat)

    def stop(self) -> None:
        """The answer comes, or none will."""
        self._timer.cancel()

    def fail(self, error: dict[str, object]) -> None:
        """End the stream with an error event."""
        event = error_event(error, self._target)
        self._client.write(self._frame(event) + (b"0\r\n\r\n" if self._chunked else b""))

    def _beat(self) -> None:
        self._timer = self._later(EVERY, self._beat)
        if self._client.blocked:
            return  # it has not read the last ones
        out = self._frame(_COMMENT)
        if not self.begun:
            self.begun = True
            framing = b"transfer-encoding: chunked\r\n" if self._chunked else b""
            close = b"" if self._keep else b"connection: close\r\n"
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n"
            out = b"".join((head, self._own(), framing, close, b"\r\n", out))
        self._client.write(out)

    def _frame(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data


class LateAnswer(Answer):
    """An answer whose client has its 200 already: a stream goes on as it comes, anything else becomes an error event.

    ``status`` is the replica's, which the client did not get to see.
    """

    __slots__ = ("_body",)

    def __init__(self, connection: Connection, call: Call, *, keep: bool, reads: bool, drop_usage: bool) -> None:
        super().__init__(connection, call, keep=keep, own=b"", reads=reads, drop_usage=drop_usage)
        self._head = b""
        self._chunked = call.http_1_1
        self.keep = keep and call.http_1_1
        stream = self.status == 200 and not connection.encoded and connection.content_type.startswith(_STREAM)
        self._body: bytearray | None = None if stream else bytearray()

    def take(self, data: bytes, now: float, *, ended: bool) -> bytes:
        """What came of the body; gives what goes to the client."""
        if self._body is None:
            return super().take(data, now, ended=ended)
        self._body += data[: _BODY_LIMIT - len(self._body)]
        return self._refusal() if ended else b""

    def broken(self, message: str, *, status: int, code: str) -> bytes:
        """The error event for a stream whose rest will never come."""
        if self._body is None:
            return super().broken(message, status=status, code=code)
        return self._framed(error_event(error_body(status, message, code=code)["error"], self._target))

    def _refusal(self) -> bytes:
        said = bytes(self._body or b"").decode("utf-8", "replace")
        message = f"The replica answered {self.status}: {said}"
        status = self.status if self.status >= 400 else 502
        return self._framed(error_event(error_body(status, message, code="replica_refused")["error"], self._target))

    def _framed(self, event: bytes) -> bytes:
        return b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event) if self._chunked else event
