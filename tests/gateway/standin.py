"""A stand-in engine on a real socket: says what a test tells it to say, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType


@dataclass(frozen=True)
class Asked:
    """One request as the engine got it; header names lowercased."""

    line: str
    headers: dict[str, str]
    body: bytes


Play = Callable[["Standin", Asked, asyncio.StreamWriter], Awaitable[None]]


def event(data: object) -> bytes:
    """One event of a stream, as engines write it."""
    return b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"


def content(text: str) -> bytes:
    """A chat chunk with content."""
    return event({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}]})


ROLE = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
USAGE = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}})
DONE = b"data: [DONE]\n\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body; an empty one ends it."""
    return b"%x\r\n%b\r\n" % (len(data), data)


async def answer_json(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
    """A whole chat answer, or a stream where one was asked for (with usage only where that was asked for, too)."""
    body = json.loads(asked.body) if asked.body else {}
    if body.get("stream"):
        usage = USAGE if (body.get("stream_options") or {}).get("include_usage") else b""
        writer.write(STREAM_HEAD + chunk(ROLE))
        for text in ("one", "two", "three"):
            writer.write(chunk(content(text)))
            await writer.drain()
        writer.write((chunk(usage) if usage else b"") + chunk(DONE) + chunk(b""))
        return
    answer = {
        "choices": [{"message": {"content": standin.name}}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
    }
    data = json.dumps(answer).encode()
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data)
    )


@dataclass
class Standin:
    """An engine. ``play`` answers; ``asked`` lists what came; ``gone`` is set when a connection closes."""

    name: str = "standin"
    play: Play = answer_json
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Standin:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=64 * 1024 * 1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Listen no more and cut every connection."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._converse(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            self.gone.set()
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer request after request; reading ahead shows a client that leaves before it has its answer."""
        asked = await _read(reader)
        while asked:
            self.asked.append(asked)
            self.arrived.set()
            playing = asyncio.ensure_future(self.play(self, asked, writer))
            reading = asyncio.ensure_future(_read(reader))
            try:
                await asyncio.wait({playing, reading}, return_when=asyncio.FIRST_COMPLETED)
                if not playing.done() and reading.result() is None:
                    return
                await playing
                asked = await reading
            finally:
                playing.cancel()
                reading.cancel()
                await asyncio.gather(playing, reading, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    line, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(line, headers, body)
