"""An engine that reads with h11 and nothing but h11, and keeps whatever it could not read."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from types import TracebackType

import h11

from tests.fuzz.reference import Meant, next_request

_UNCLEAN = re.compile(rb"(?<!\r)\n|\r(?!\n)|\n[ \t]|\x00")
"""In a head: a line end that is not CRLF, a folded line, a NUL. Strict and lax readers take them differently."""


@dataclass
class Engine:
    """Answers each request with 200 and its place in ``asked`` as ``x-asked``. ``faults`` should stay empty."""

    asked: list[Meant] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    port: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Engine:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._converse(reader, writer)
        except ConnectionError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Request after request; each is read from its own first byte, so that a surplus byte is seen."""
        data = b""
        while True:
            connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 24)
            if data:
                connection.receive_data(data)
            while (meant := self._next(connection, data)) is None:
                more = await reader.read(1 << 16)
                if not more:
                    if data:
                        self.faults.append(f"half a request: {data[:200]!r}")
                    return
                data += more
                connection.receive_data(more)
            data = connection.trailing_data[0]
            if data:
                self.faults.append(f"bytes behind a request: {data[:200]!r}")
            self.asked.append(meant)
            writer.write(self._answer(meant, len(self.asked) - 1))

    def _next(self, connection: h11.Connection, data: bytes) -> Meant | None:
        head = data.partition(b"\r\n\r\n")[0]
        if _UNCLEAN.search(head):
            self.faults.append(f"unclean head: {head[:300]!r}")
        try:
            return next_request(connection)
        except h11.RemoteProtocolError as error:
            self.faults.append(f"{error}: {data[:300]!r}")
            raise ConnectionError from error

    def _answer(self, meant: Meant, place: int) -> bytes:
        try:
            body = json.loads(meant.body)
            stream = isinstance(body, dict) and body.get("stream") is True
        except (ValueError, RecursionError):
            stream = False
        if stream:
            event = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nx-asked: %d"
            return head % place + b"\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(event), event)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\nx-asked: %d\r\n\r\n" % place
        return head if meant.method == "HEAD" else head + b"{}"
