"""The stand-in engine: answers like an OpenAI server, in microseconds, so that only what stands before it is measured.

    python -m benchmarks.gateway.engine 18001 18002

Listens on several ports, so that it can be several workers, until it is told to end. ``stream`` in a request's body
asks for an event stream of 64 content chunks, each its own write; ``seed`` is the milliseconds between two of them (a
field that every proxy passes on). Anything that is no ``POST`` gets what health checks and worker discovery look for.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, cycle, islice
from typing import cast

import uvloop

CHUNKS = 64
"""Content events of a stream."""
MODEL = "bench"
TEXT = "The quick brown fox jumps over the lazy dog and then sleeps in the warm sun until evening comes. "
USAGE = {"prompt_tokens": 420, "completion_tokens": CHUNKS, "total_tokens": 420 + CHUNKS}

_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_STREAM = re.compile(rb'"stream"\s*:\s*true')
_USAGE = re.compile(rb'"include_usage"\s*:\s*true')
_SEED = re.compile(rb'"seed"\s*:\s*(\d+)')
_OPTION_WINDOW = 400
"""Bytes at either end of a body that its options are looked for in: the prompt in the middle is not searched."""


def _json(data: object) -> bytes:
    body = json.dumps(data, separators=(",", ":")).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def _event(**fields: object) -> bytes:
    data = {
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": MODEL,
        **fields,
    }
    event = b"data: " + json.dumps(data, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(event), event)


def _delta(word: str) -> bytes:
    return _event(choices=[{"index": 0, "delta": {"content": word}, "finish_reason": None}])


_WORDS = (TEXT.split() * CHUNKS)[:CHUNKS]
_COMPLETION = _json(
    {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": MODEL,
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": " ".join(_WORDS)}, "finish_reason": "stop"}
        ],
        "usage": USAGE,
    }
)
_ABOUT = _json(
    {
        "status": "ok",
        "version": "0.24.0",
        "object": "list",
        "data": [
            {"id": MODEL, "object": "model", "created": 1_700_000_000, "owned_by": "vllm", "max_model_len": 65536}
        ],
    }
)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_EVENTS = [_delta(f"{word} ") for word in _WORDS]
_FINISH = _event(choices=[{"index": 0, "delta": {}, "finish_reason": "stop"}])
_LAST_USAGE = _event(choices=[], usage=USAGE)
_DONE = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Engine(asyncio.Protocol):
    """One connection: whole requests in, canned answers out. Requests have a ``Content-Length``, as all peers' do."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chunks: int) -> None:
        self._loop = loop
        self._chunks = chunks
        self._paused = False
        self._next: Callable[[], None] | None = None
        self._held = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: connected."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: closed; a stream under way ends."""
        self._transport = None

    def pause_writing(self) -> None:
        """asyncio: whoever reads is behind; the stream waits."""
        self._paused = True

    def resume_writing(self) -> None:
        """asyncio: the stream goes on."""
        self._paused = False
        following, self._next = self._next, None
        if following is not None:
            following()

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of a request."""
        if self._held:
            data = self._held + data
        head, separator, body = data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not separator or (length is not None and len(body) < int(length[1])):
            self._held = data
            return
        self._held = b""
        self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        assert self._transport is not None
        if not head.startswith(b"POST"):
            self._transport.write(_ABOUT)
            return
        options = body if len(body) < 2 * _OPTION_WINDOW else body[:_OPTION_WINDOW] + body[-_OPTION_WINDOW:]
        if _STREAM.search(options) is None:
            self._transport.write(_COMPLETION)
            return
        seed = _SEED.search(options)
        pause = int(seed[1]) / 1000 if seed is not None else 0.0
        tail = _FINISH + (_LAST_USAGE if _USAGE.search(options) is not None else b"") + _DONE
        events = islice(cycle(_EVENTS), self._chunks)
        self._stream(chain((_HEAD + next(events),), events, (tail,)), pause, self._loop.time())

    def _stream(self, events: Iterator[bytes], pause: float, due: float) -> None:
        """One write an event: as engines send them, not in one piece."""
        event = next(events, None)
        if event is None or self._transport is None:
            return
        self._transport.write(event)
        if self._paused:
            self._next = partial(self._stream, events, pause, due)
        elif pause:
            due += pause
            self._loop.call_at(due, self._stream, events, pause, due)
        else:
            self._loop.call_soon(self._stream, events, pause, due)


async def _serve(ports: list[int], chunks: int) -> None:
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda: Engine(loop, chunks), "127.0.0.1", port, backlog=1024) for port in ports
    ]
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ports", type=int, nargs="+")
    parser.add_argument("--chunks", type=int, default=CHUNKS, help="content events of a stream (default: %(default)s)")
    options = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(options.ports, options.chunks))


if __name__ == "__main__":
    main()
