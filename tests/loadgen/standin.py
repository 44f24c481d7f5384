"""A server with known timings: it notes when it wrote each event, on the clock that clients measure with."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Written:
    """One answer: when its request was read and when each content event was written (``time.perf_counter()``)."""

    read: float
    events: list[float] = field(default_factory=list)
    ended: float = 0.0
    body: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Standin:
    """What it does, and what it did.

    Attributes:
        ttft, gap: seconds before the first event and between events.
        tokens_per_event: of every content event, as a drafter makes them.
        words_per_token, overhead: how it counts a prompt.
        status: answered to every request, with an OpenAI error where it is not 200.
        cut: the connection is closed after so many events.
        counts: whether it says usage.
        forgets: it closes a kept connection when the second request comes on it, without a word.
    """

    ttft: float = 0.05
    gap: float = 0.01
    tokens_per_event: int = 1
    words_per_token: float = 0.8
    overhead: int = 12
    status: int = 200
    cut: int | None = None
    counts: bool = True
    forgets: bool = False
    context: int | None = 4096
    models: tuple[str, ...] = ("standin",)
    answers: list[Written] = field(default_factory=list)
    port: int = 0

    @property
    def url(self) -> str:
        """Its API's base."""
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        served = False
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, *rest = head.decode("latin-1").split("\r\n")
                headers = {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in rest if line)}
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                if self.forgets and first.startswith("POST"):
                    if served:
                        break
                    served = True
                if first.startswith("GET"):
                    listed = [{"id": name, "max_model_len": self.context} for name in self.models]
                    writer.write(_whole(200, {"object": "list", "data": listed}))
                elif self.status != 200:
                    writer.write(_whole(self.status, {"error": {"message": "no room\nleft", "code": "full"}}))
                else:
                    await self._stream(writer, json.loads(body), headers)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _stream(self, writer: asyncio.StreamWriter, body: dict[str, Any], headers: dict[str, str]) -> None:
        answer = Written(time.perf_counter(), body=body, headers=headers)
        self.answers.append(answer)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        _event(writer, {"choices": [{"delta": {"role": "assistant", "content": ""}}]})
        tokens = body["max_tokens"]
        for index in range(0, tokens, self.tokens_per_event):
            due = answer.read + self.ttft + self.gap * (index // self.tokens_per_event)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if self.cut is not None and len(answer.events) >= self.cut:
                writer.transport.abort()
                return
            answer.events.append(time.perf_counter())
            _event(writer, {"choices": [{"delta": {"content": "word "}}]})
            await writer.drain()
        if self.counts:
            words = sum(len(message["content"].split()) for message in body["messages"])
            prompt = self.overhead + round(words / self.words_per_token)
            usage = {"prompt_tokens": prompt, "completion_tokens": tokens}
            _event(writer, {"choices": [], "usage": usage})
        _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        answer.ended = time.perf_counter()


@contextmanager
def serving(standin: Standin) -> Iterator[Standin]:
    """Serve in a thread with its own loop until the end of the block."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    stop = asyncio.Event()

    async def main() -> None:
        server = await asyncio.start_server(standin.serve, "127.0.0.1", 0, limit=2**24)
        standin.port = server.sockets[0].getsockname()[1]
        ready.set()
        await stop.wait()
        server.close()

    async def cancel() -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def run() -> None:
        loop.run_until_complete(main())
        loop.run_until_complete(cancel())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(10)
    try:
        yield standin
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


def _event(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
    _chunk(writer, b"data: " + json.dumps(event).encode() + b"\n\n")


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _whole(status: int, value: dict[str, Any]) -> bytes:
    data = json.dumps(value).encode()
    return (
        f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data
    )
