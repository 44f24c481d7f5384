"""Connections to replicas: kept alive, pooled, and paused when the client is slow.

httptools reads the head and the framing; the bytes of a body are handed on as they come, never looked at here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, cast
from urllib.parse import urlsplit

import httptools

from outrider.gateway import halfopen
from outrider.gateway.table import Replica

CONNECT_TIMEOUT = 5.0
"""Seconds for a TCP connection; a listening engine answers in less than one, however busy it is."""

IDLE_REUSE = 4.0
"""Seconds after which an idle connection is not used again: uvicorn and llama.cpp close theirs after 5."""

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)

NOT_FORWARDED = _HOP_BY_HOP | {b"host", b"content-length", b"expect", b"authorization", b"x-api-key", b"x-request-id"}
"""Request headers that end here: hop-by-hop ones, framing, and whatever could carry a client's secret."""

_NOT_RETURNED = _HOP_BY_HOP | {b"content-length", b"x-request-id"}


class Sink(Protocol):
    """Who asked, and hears of the answer."""

    def upstream_read(self, connection: Connection, data: bytes, ended: bool) -> None:
        """The head is complete (``connection.status``); ``data`` of the body came, with ``ended`` the last of it."""
        ...

    def upstream_lost(self, connection: Connection, reason: str) -> None:
        """The connection is gone before the end. ``connection.status`` is 0 if no head had come."""
        ...


class Connection(asyncio.Protocol):
    """One connection to a replica, serving one request at a time.

    Attributes:
        status: HTTP status of the answer, 0 until its head is complete.
        headers: header lines of the answer that go on to the client, as bytes.
        length: declared length of the answer's body, or None.
        content_type: of the answer, lowercase.
        encoded: whether the answer has a content coding, which makes its bytes unreadable here.
        started: monotonic seconds at the answer's first byte.
        reused: whether the connection had served a request before this one.
    """

    def __init__(self, pool: Pool, clock: Callable[[], float]) -> None:
        self._pool = pool
        self._clock = clock
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append  # httptools: a piece of the body, out of its chunk; no frame of Python's
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._sink: Sink | None = None
        self.idle_since = 0.0
        self.reused = False
        self._reset(head_request=False)

    def _reset(self, *, head_request: bool) -> None:
        self.status = 0
        self.headers: list[bytes] = []
        self.length: int | None = None
        self.content_type = b""
        self.encoded = False
        self.started = 0.0
        self._head_request = head_request
        self._pieces.clear()
        self._complete = False
        self._until_close = True
        self._keep = False

    def send(self, message: bytes, sink: Sink, *, head_request: bool) -> None:
        """Send a whole request; the sink hears of the answer."""
        assert self._transport is not None
        self._reset(head_request=head_request)
        self._sink = sink
        self._transport.write(message)

    def abandon(self) -> None:
        """Close at once: nobody wants the answer, and the engine sees that it can stop."""
        self._sink = None
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Read no more until :meth:`resume`: the client is slower than the replica."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    @property
    def usable(self) -> bool:
        """Whether it may serve another request."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: connected."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of the answer."""
        if self._sink is None:
            self.abandon()  # nothing was asked: the connection is out of step
            return
        if not self.started:
            self.started = self._clock()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._lose(f"sent something that is not HTTP: {error}")
            return
        if self.status:
            self._hand_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: closed. For an answer without a length that is its end."""
        del self._parser  # it holds this object's methods: a cycle that only the collector would free
        self._pool.forget(self)
        sink = self._sink
        if sink is None:
            return
        if self.status and self._until_close and exc is None:
            self._sink = None
            sink.upstream_read(self, b"", True)
        else:
            self._lose("closed the connection" if exc is None else f"closed the connection ({exc})")

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: one header. Those behind a chunked body (trailers) come too late to be passed on."""
        if self.status:
            return
        name = name.lower()
        if name == b"content-length":
            self.length = int(value)
            self._until_close = False
        elif name == b"transfer-encoding":
            self._until_close = False
        elif name not in _NOT_RETURNED:
            if name == b"content-type":
                self.content_type = value.lower()
            elif name == b"content-encoding":
                self.encoded = value.lower() != b"identity"
            self.headers.append(b"%b: %b\r\n" % (name, value))

    def on_headers_complete(self) -> None:
        """httptools: the head is complete. Heads of 1xx come before the answer's own and say nothing of it."""
        status = self._parser.get_status_code()
        if status < 200:
            self.headers.clear()
            return
        self.status = status
        if self._head_request or status in (204, 304):
            self._complete = True

    def on_message_complete(self) -> None:
        """httptools: the body is complete."""
        if self.status:
            self._complete = True
            self._keep = self._parser.should_keep_alive()  # known only now: the parser then forgets this message

    def _hand_on(self) -> None:
        pieces = self._pieces
        sink = self._sink
        if sink is None:
            return
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if not self._complete:
            sink.upstream_read(self, data, False)
            return
        self._sink = None
        sink.upstream_read(self, data, True)
        if self._keep and self.usable:
            self.resume()
            self._pool.put_back(self)
        else:
            self.abandon()

    def _lose(self, reason: str) -> None:
        sink, self._sink = self._sink, None
        if self._transport is not None:
            self._transport.abort()
        if sink is not None:
            sink.upstream_lost(self, reason)


class Pool:
    """Connections to one replica, the last used first. ``preamble`` are the header lines every request to it has.

    Args:
        replica: where to connect, and its key.
        clock: monotonic seconds.
    """

    def __init__(self, replica: Replica, clock: Callable[[], float]) -> None:
        parts = urlsplit(replica.url)
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or 80
        self._clock = clock
        self.replica = replica
        self.address = (self._host, self._port)
        self._idle: list[Connection] = []
        self._closed = False
        self.prefix = parts.path
        authorization = f"authorization: Bearer {replica.key}\r\n" if replica.key else ""
        self.preamble = f"host: {parts.netloc}\r\n{authorization}".encode("latin-1")

    def idle(self) -> Connection | None:
        """A connection that is open and was used a moment ago, or None."""
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and self._clock() - connection.idle_since < IDLE_REUSE:
                connection.reused = True
                return connection
            connection.abandon()
        return None

    async def connect(self) -> Connection:
        """Make a new connection.

        Raises:
            OSError: nobody listens there, or not within 5 s (``TimeoutError``).
        """
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_TIMEOUT):
            transport, connection = await loop.create_connection(
                lambda: Connection(self, self._clock), self._host, self._port
            )
        halfopen.watch(transport.get_extra_info("socket"))
        return connection

    def put_back(self, connection: Connection) -> None:
        """Keep a connection whose answer has ended."""
        if self._closed:
            connection.abandon()
            return
        connection.idle_since = self._clock()
        self._idle.append(connection)

    def forget(self, connection: Connection) -> None:
        """A connection has closed."""
        if connection in self._idle:
            self._idle.remove(connection)

    def prune(self) -> None:
        """Close what has been idle for too long to be used again: the last used go first, so the others would stay."""
        oldest = self._clock() - IDLE_REUSE
        for connection in [connection for connection in self._idle if connection.idle_since < oldest]:
            connection.abandon()
            self.forget(connection)

    def close(self) -> None:
        """Close what is idle, and what is in use once its answer has ended."""
        self._closed = True
        for connection in self._idle:
            connection.abandon()
        self._idle.clear()
