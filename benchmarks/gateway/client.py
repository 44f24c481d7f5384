"""The load client: raw HTTP/1.1 over kept connections, closed loop or open loop, first byte and end of every answer."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import deque
from dataclasses import dataclass, field
from typing import cast

from benchmarks.gateway.engine import MODEL, TEXT

_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_LAST_CHUNK = b"0\r\n\r\n"
_LATE = 0.25
"""Seconds after which a request that was due and not sent counts as failed: every connection was waiting for long."""
_DRAIN = 10.0
"""Seconds that what is in flight gets at the end of a measurement before it counts as failed."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent.

    Attributes:
        name: of the row, such as ``sse_paced_c16``.
        stream: whether a stream is asked for.
        pace_ms: milliseconds a chunk; 0 for full speed.
        size: bytes of the request's body.
        concurrency: connections of the closed loop; 0 for an open loop.
        rate: requests a second of the open loop.
    """

    name: str
    stream: bool
    pace_ms: int
    size: int
    concurrency: int
    rate: float = 0.0

    def request(self, host: str, key: str) -> bytes:
        """The whole request, as an OpenAI client sends it."""
        options: dict[str, object] = {"model": MODEL, "stream": self.stream, "max_tokens": 64, "seed": self.pace_ms}
        question = {"role": "user", "content": "What does the fox do in the evening?"}
        bare = len(json.dumps({**options, "messages": [{"role": "system", "content": ""}, question]}))
        system = (TEXT * (self.size // len(TEXT) + 1))[: max(0, self.size - bare)]
        body = json.dumps({**options, "messages": [{"role": "system", "content": system}, question]}).encode()
        lines = (
            "POST /v1/chat/completions HTTP/1.1",
            f"host: {host}",
            "accept: application/json",
            "accept-encoding: identity",
            "content-type: application/json",
            "user-agent: OpenAI/Python 2.8.0",
            f"authorization: Bearer {key}",
            f"content-length: {len(body)}",
        )
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@dataclass(slots=True)
class Result:
    """What came of a load; durations in seconds, one of each kind for every whole answer in the time measured.

    ``answered`` counts all answers, those of the warm-up and of the end included: what CPU time is divided by.
    """

    first: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    failures: int = 0
    seconds: float = 0.0
    answered: int = 0


class _Connection(asyncio.Protocol):
    """One connection: sends when told to, and says when the answer has ended."""

    def __init__(self, driver: _Driver) -> None:
        self._driver = driver
        self._started = 0.0
        self._first = 0.0
        self._left = -1
        self._head = b""
        self._ok = False
        self._chunked = False
        self._tail = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: connected."""
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: closed. A request under way has failed."""
        self.transport = None
        self._driver.lost(self, busy=bool(self._started))

    def send(self, request: bytes, started: float) -> None:
        """Send a request that was due at ``started``."""
        assert self.transport is not None
        self._started = started
        self._first = 0.0
        self._head = b""
        self._left = -1
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of an answer."""
        now = time.perf_counter()
        if not self._first:
            self._first = now
        if self._left < 0:
            self._head += data
            head, separator, data = self._head.partition(b"\r\n\r\n")
            if not separator:
                return
            length = _LENGTH.search(head)
            self._ok = head[9:12] == b"200"
            self._chunked = length is None
            self._left = int(length[1]) if length is not None else 0
            self._tail = b""
        if self._chunked:
            if len(data) >= 5:
                ended = data.endswith(_LAST_CHUNK)
                self._tail = data[-5:]
            else:
                self._tail = (self._tail + data)[-5:]
                ended = self._tail == _LAST_CHUNK
        else:
            self._left -= len(data)
            ended = self._left <= 0
        if ended:
            started, self._started = self._started, 0.0
            self._driver.ended(self, self._ok, self._first - started, now - started)


class _Driver:
    """Keeps a load going until its time is over."""

    def __init__(self, load: Load, port: int, key: str) -> None:
        self._load = load
        self._port = port
        self._request = load.request(f"127.0.0.1:{port}", key)
        self._loop = asyncio.get_running_loop()
        self._idle: deque[_Connection] = deque()
        self._due: deque[float] = deque()
        self._busy = 0
        self._answered = 0
        self._open: set[_Connection] = set()
        self._dialling: set[asyncio.Task[None]] = set()
        self._running = True
        self._drained = asyncio.Event()
        self.result = Result()

    async def run(self, warm_up: float, seconds: float) -> Result:
        """Load for ``warm_up`` + ``seconds``, of which the first part is thrown away."""
        wanted = self._load.concurrency or 64
        await asyncio.gather(*(self._dial() for _ in range(wanted)))
        if self._load.concurrency:
            for _ in range(wanted):
                self._send(time.perf_counter())
        else:
            self._tick(time.perf_counter(), 1.0 / self._load.rate)
        await asyncio.sleep(warm_up)
        self.result = Result()
        begun = time.perf_counter()
        await asyncio.sleep(seconds)
        self.result.seconds = time.perf_counter() - begun
        result, self.result = self.result, Result()
        await self._stop(result)
        result.answered = self._answered
        return result

    async def _stop(self, result: Result) -> None:
        self._running = False
        late = time.perf_counter() - _LATE
        result.failures += sum(due < late for due in self._due)  # an open loop that fell behind
        self._due.clear()
        if self._busy:
            try:
                await asyncio.wait_for(self._drained.wait(), _DRAIN)
            except TimeoutError:
                result.failures += self._busy
        for connection in list(self._open):
            if connection.transport is not None:
                connection.transport.abort()

    async def _dial(self) -> None:
        _, connection = await self._loop.create_connection(lambda: _Connection(self), "127.0.0.1", self._port)
        self._open.add(connection)
        self._idle.append(connection)

    def _tick(self, due: float, every: float) -> None:
        """Open loop: requests are due at fixed times, whether or not earlier ones have been answered."""
        if not self._running:
            return
        now = time.perf_counter()
        while due <= now:
            self._due.append(due)
            due += every
        while self._due and self._idle:
            self._send(self._due.popleft())
        self._loop.call_later(max(0.0, due - time.perf_counter()), self._tick, due, every)

    def _send(self, due: float) -> None:
        self._busy += 1
        self._idle.popleft().send(self._request, due)

    def ended(self, connection: _Connection, ok: bool, first: float, total: float) -> None:
        """An answer has come whole."""
        self._busy -= 1
        self._answered += 1
        if ok:
            self.result.first.append(first)
            self.result.total.append(total)
        else:
            self.result.failures += 1
        self._idle.append(connection)
        self._next()

    def lost(self, connection: _Connection, *, busy: bool) -> None:
        """A connection has closed; another takes its place."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if busy:
            self._busy -= 1
            self.result.failures += 1
        if self._running:
            task = self._loop.create_task(self._replace())
            self._dialling.add(task)
            task.add_done_callback(self._dialling.discard)

    async def _replace(self) -> None:
        await self._dial()
        self._next()

    def _next(self) -> None:
        if not self._running:
            if not self._busy:
                self._drained.set()
        elif self._load.concurrency:
            self._send(time.perf_counter())
        elif self._due:
            self._send(self._due.popleft())


async def measure(load: Load, port: int, key: str, *, warm_up: float, seconds: float) -> Result:
    """Send a load to a port of this machine.

    Raises:
        OSError: nobody listens there.
    """
    return await _Driver(load, port, key).run(warm_up, seconds)
