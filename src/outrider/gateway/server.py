"""The client's side: HTTP/1.1 in, one request at a time in order, whatever the client does to its connection."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, cast

import httptools

from outrider.gateway import framing, responses, routes, tunnel
from outrider.gateway.call import Call
from outrider.gateway.exchange import Exchange
from outrider.gateway.responses import Response
from outrider.gateway.routes import Place
from outrider.gateway.tunnel import Tunnel

if TYPE_CHECKING:
    from outrider.gateway.gateway import Gateway

HEAD_LIMIT = 64 * 1024
"""Bytes of a request head: eight times what browsers and SDKs send at most."""

KEEP_ALIVE = 300.0
"""Seconds without a byte after which a connection between requests is closed: longer than SDKs keep theirs."""

_LINGER = 2.0
"""Seconds in which a client that still sends may read why it was refused; closing at once would be a reset."""

_QUEUE = 16
"""Requests a client may send ahead before its socket is no longer read."""


class Client(asyncio.Protocol):
    """One client connection."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._parser = httptools.HttpRequestParser(self)
        self._tunnel: Tunnel | None = None
        self._queue: deque[Call | Response | Tunnel] = deque()
        self._exchange: Exchange | None = None
        self._pumping = False
        self._refused = False
        self._closing = False
        self._reading = True
        self._blocked = False
        self._expects = False
        self._head_bytes = 0
        self._head_at = 0.0
        self._framing_bytes = 0  # since the last byte of a body: sizes and extensions of chunks, trailers
        self.active_at = gateway.clock()
        self.transport: asyncio.Transport | None = None
        self.on_message_begin()

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: a client has connected."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none by inheritance
        self._gateway.clients.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the client is gone, and what it asked for is cancelled."""
        self._closing = True
        self._queue.clear()
        del self._parser  # it holds this object's methods: a cycle that only the collector would free
        self._gateway.leave(self)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.client_gone()

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of requests."""
        if self._refused:
            if self._tunnel is not None:
                self._tunnel.data_received(data)
            return
        self.active_at = self._gateway.clock()
        if self._in_body:
            self._framing_bytes += len(data)
        else:
            if not self._head_bytes:
                self._head_at = self.active_at
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._refuse(
                responses.error(
                    400, f"Not a valid HTTP request: {error}. Send plain HTTP/1.1, with one length", code="bad_request"
                )
            )
        if not self._refused and not self._in_body and self._head_bytes > HEAD_LIMIT:
            self._refuse_head()
        if not self._refused and self._in_body and self._framing_bytes > HEAD_LIMIT:
            self._refuse_framing()
        if len(self._queue) > _QUEUE and self._reading and self.transport is not None:
            self._reading = False
            self.transport.pause_reading()
        self._pump()

    def pause_writing(self) -> None:
        """asyncio: the client reads too slowly."""
        self._blocked = True
        if self._exchange is not None:
            self._exchange.pause()

    def resume_writing(self) -> None:
        """asyncio: the client has caught up."""
        self._blocked = False
        if self._exchange is not None:
            self._exchange.resume()
        self._pump()

    # httptools

    def on_message_begin(self) -> None:
        """httptools: a request begins."""
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._size = 0
        self._in_body = False
        self._version = ""

    def on_url(self, url: bytes) -> None:
        """httptools: the request target, or a part of it."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """httptools: one header. Those behind a chunked body (trailers) are not taken for the head's."""
        if self._in_body:
            return
        self._size += len(name) + len(value) + 4
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """httptools: the head is complete; what is too large is refused before it is sent."""
        if self._size + len(self._target) > HEAD_LIMIT:
            self._refuse_head()
        self._in_body = True
        self._head_bytes = self._framing_bytes = self._size = 0
        self._version = self._parser.get_http_version()
        fault = framing.fault(self._version, self._headers)
        if fault is not None:
            self._refuse(fault)
        for name, value in self._headers:
            if name == b"content-length" and int(value) > self._gateway.body_limit:
                self._refuse_body()
            elif name == b"expect" and value.lower() == b"100-continue":
                self._expects = True
        if self._expects and self._exchange is None and not self._queue:
            self._continue()

    def on_body(self, data: bytes) -> None:
        """httptools: bytes of the body, out of their chunks."""
        self._framing_bytes = 0
        self._size += len(data)
        if self._size <= self._gateway.body_limit:
            self._pieces.append(data)
        elif not self._refused:
            self._refuse_body()

    def on_message_complete(self) -> None:
        """httptools: a request is complete."""
        self._in_body = self._expects = False
        self._head_bytes = 0
        if self._refused:
            return
        pieces = self._pieces
        self._queue.append(
            Call(
                method=self._parser.get_method().decode("ascii"),
                target=_origin_form(self._target),
                headers=tuple(self._headers),
                body=pieces[0] if len(pieces) == 1 else b"".join(pieces),
                keep_alive=self._parser.should_keep_alive(),
                http_1_1=self._version == "1.1",
                completed=self._gateway.clock(),
            )
        )

    # the exchange

    def write(self, data: bytes) -> None:
        """Send bytes of an answer."""
        if self.transport is not None:
            self.transport.write(data)

    def keeps(self, call: Call) -> bool:
        """Whether the connection serves on after a call."""
        return call.keep_alive and not self._closing

    @property
    def blocked(self) -> bool:
        """Whether the client is behind with reading."""
        return self._blocked

    def finished(self, *, keep: bool) -> None:
        """An exchange has written its last byte."""
        self._exchange = None
        self.active_at = self._gateway.clock()
        if not keep or self._closing:
            self.close()
            return
        if self._expects and not self._queue:
            self._continue()
        self._pump()

    def abort(self) -> None:
        """Close in a way that the client cannot take for the end of an answer."""
        self._exchange = None
        self._closing = True
        if self.transport is not None:
            self.transport.abort()

    def close(self) -> None:
        """Close once everything written has gone out."""
        self._closing = True
        self._queue.clear()
        if self.transport is not None:
            self.transport.close()

    def drain(self) -> None:
        """The gateway stops: serve what is in flight, or the one request that is on its way, and close."""
        self._closing = True

    def leave_if_idle(self) -> None:
        """Close where nothing is in flight."""
        if self._exchange is None and not self._queue:
            self.close()

    @property
    def peer(self) -> str:
        """Address of who has connected."""
        name = self.transport.get_extra_info("peername") if self.transport is not None else None
        return str(name[0]) if name else ""

    def tick(self, now: float) -> None:
        """Time has passed: end what takes too long, on either side."""
        timeouts, silent = self._gateway.timeouts, now - self.active_at
        if self._exchange is not None:
            self._exchange.tick(now)
        elif self._in_body and silent > timeouts.body:
            self._refuse_slow(f"The request's body stood still for {timeouts.body:g} s")
        elif self._head_bytes and now - self._head_at > timeouts.head:
            self._refuse_slow(f"The request's head was not complete within {timeouts.head:g} s")
        elif silent > KEEP_ALIVE:
            if self._closing or self._blocked:
                self.abort()  # it does not even take what was sent
            else:
                self.close()

    # inside

    def _pump(self) -> None:
        if self._pumping:
            return  # an answer that was given at once comes back here: a loop, not a recursion as deep as the pipeline
        self._pumping = True
        while self._queue and self._exchange is None and not self._blocked:
            call = self._queue.popleft()
            if isinstance(call, Tunnel):
                self._hand_over(call)
                break
            if isinstance(call, Response):
                self.write(call.encode(keep_alive=False))
                self._linger()
                break
            self._exchange = Exchange(self._gateway, self, call)
            self._exchange.start()
        self._pumping = False
        if not self._reading and len(self._queue) <= _QUEUE and self.transport is not None and not self._refused:
            self._reading = True
            self.transport.resume_reading()

    def _continue(self) -> None:
        self._expects = False
        if not self._refused:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _refuse(self, response: Response) -> None:
        """Answer after whatever was asked before, then close; the rest of what the client sends is not read."""
        if not self._refused:
            self._refused = True
            self._pieces.clear()
            self._queue.append(response)

    def _refuse_head(self) -> None:
        limit = HEAD_LIMIT // 1024
        self._refuse(
            responses.error(
                431,
                f"The request head is larger than {limit} KiB. Send fewer or shorter headers",
                code="head_too_large",
            )
        )

    def _refuse_framing(self) -> None:
        limit = HEAD_LIMIT // 1024
        message = f"The body's trailers or chunk extensions are larger than {limit} KiB"
        self._refuse(responses.error(431, message, code="head_too_large"))

    def _refuse_body(self) -> None:
        limit = self._gateway.body_limit
        self._refuse(
            responses.error(413, f"The request body is larger than {limit:,} bytes. Send less", code="body_too_large")
        )

    def _refuse_slow(self, message: str) -> None:
        self._refuse(responses.error(408, message, code="request_timeout"))
        self._pump()

    def _upgrade(self, rest: bytes) -> None:
        """The parser ends at an upgrade. Its request was complete: a tunnel takes its place, or a refusal."""
        if self._refused:
            return
        call = self._queue.pop()
        assert isinstance(call, Call)
        route = routes.match(call.target)
        if route is not None and route.place in (Place.CUSTOM, Place.REALTIME) and tunnel.wants(call):
            self._refused = True  # nothing that comes is a request any more
            self._tunnel = Tunnel(self._gateway, call, route, rest)
            self._queue.append(self._tunnel)
            return
        message = "No such upgrade is served here; send plain HTTP/1.1 without an Upgrade header"
        self._refuse(responses.error(400, message, code="upgrade_not_supported"))

    def _hand_over(self, to: Tunnel) -> None:
        transport, self.transport = self.transport, None
        self._closing = True
        self._gateway.clients.discard(self)
        if transport is not None:
            to.start(transport)

    def _linger(self) -> None:
        self._closing = True
        transport = self.transport
        if transport is not None and not transport.is_closing():
            if transport.can_write_eof():
                transport.write_eof()
            self._gateway.loop.call_later(_LINGER, transport.close)


def _origin_form(target: bytes) -> str:
    """Path and query of a request target; the absolute form (RFC 9112 §3.2.2) loses its scheme and host."""
    if not target.startswith(b"/"):
        try:
            parts = httptools.parse_url(target)
        except httptools.HttpParserInvalidURLError:
            return target.decode("latin-1")
        query = b"?" + parts.query if parts.query else b""
        target = (parts.path or b"/") + query
    return target.decode("latin-1")
