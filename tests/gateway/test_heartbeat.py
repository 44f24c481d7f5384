"""Streams that are held: quiet at first, then 200 and comments, and errors as events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from outrider.gateway.heartbeat import EVERY, QUIET
from tests.gateway.client import Served, Wire, chat, key, post, serving, table, until
from tests.gateway.clock import Clock
from tests.gateway.standin import DONE, ROLE, Asked, Standin, content

COMMENT = b": waiting for a replica\n\n"
ANSWER = ROLE + content("one") + content("two") + content("three") + DONE


@asynccontextmanager
async def holding(clock: Clock, request: bytes, **settings: object) -> AsyncIterator[tuple[Served, Wire]]:
    """A gateway without replicas, and a connection whose request it holds."""
    async with serving(table(), later=clock.later, **settings) as served, served.wire() as wire:
        await wire.send(request)
        await until(lambda: served.gateway.admission.waiting() == {"tiny": 1})
        yield served, wire


async def test_nothing_is_sent_for_five_seconds_and_the_status_is_the_replicas() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 No\r\nContent-Length: 2\r\n\r\nno")

    clock = Clock()
    async with Standin(play=play) as engine, holding(clock, chat(stream=True)) as (served, wire):
        clock.advance(QUIET - 0.1)
        served.gateway.use(table([engine], version=2))
        reply = await wire.reply()
        assert (reply.status, reply.body) == (400, b"no")


async def test_comments_then_the_answer() -> None:
    clock = Clock()
    async with Standin() as engine, holding(clock, chat(stream=True)) as (served, wire):
        clock.advance(QUIET)
        head = await wire.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n") and b"content-type: text/event-stream" in head
        assert b"x-request-id: req-" in head and b"server-timing: waiting;dur=" in head
        assert await wire.chunk() == COMMENT
        for _ in range(2):
            clock.advance(EVERY)
            assert await wire.chunk() == COMMENT
        served.gateway.use(table([engine], version=2))
        got = b""
        while piece := await wire.chunk():
            got += piece
        assert got == ANSWER
        [record] = served.gateway.numbers.records
        assert record.ttft is not None and record.prompt_tokens == 7
        await wire.send(chat())
        assert (await wire.reply()).status == 200, "the connection serves on"


async def test_a_plain_request_hears_nothing_until_its_end() -> None:
    clock = Clock()
    async with Standin() as engine, holding(clock, chat()) as (served, wire):
        clock.advance(QUIET + EVERY)
        served.gateway.use(table([engine], version=2))
        assert (await wire.reply()).json()["choices"]


async def test_plain_503_with_retry_after_where_the_deadline_is_early() -> None:
    clock = Clock()
    async with holding(clock, chat(stream=True), deadline=4.0) as (_, wire):
        clock.advance(4.0)
        reply = await wire.reply()
        assert reply.status == 503 and int(reply.headers["retry-after"]) > 0


@pytest.mark.parametrize(
    ("path", "kind"), [("/v1/chat/completions", "service_unavailable"), ("/v1/messages", "overloaded_error")]
)
async def test_the_deadline_is_an_event_once_the_stream_has_begun(path: str, kind: str) -> None:
    clock = Clock()
    async with holding(clock, post(path, {"model": "tiny", "stream": True})) as (served, wire):
        clock.advance(QUIET)
        clock.advance(25.0)
        reply = await wire.reply()
        assert reply.status == 200 and reply.complete
        event = reply.body.rpartition(b"data: ")[2]
        assert json.loads(event)["error"]["type"] == kind
        assert served.gateway.numbers.records[-1].status == 503


async def test_what_the_replica_refuses_is_an_event_once_the_stream_has_begun() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 No\r\nContent-Length: 12\r\n\r\nmax_tokens 0")

    clock = Clock()
    async with Standin(play=play) as engine, holding(clock, chat(stream=True)) as (served, wire):
        clock.advance(QUIET)
        served.gateway.use(table([engine], version=2))
        reply = await wire.reply()
        error = json.loads(reply.body.removeprefix(COMMENT).removeprefix(b"data: "))["error"]
        assert error["type"] == "invalid_request_error"
        assert error["message"] == "The replica answered 400: max_tokens 0"


async def test_replica_gone_after_comments() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        await writer.drain()
        writer.close()

    clock = Clock()
    async with Standin(play=play) as engine, holding(clock, chat(stream=True)) as (served, wire):
        clock.advance(QUIET)
        served.gateway.use(table([engine], version=2))
        reply = await wire.reply()
        assert reply.complete and b'"replica_failed"' in reply.body
        assert await wire.closed()


async def test_http_1_0_gets_comments_without_chunks() -> None:
    clock = Clock()
    request = chat(stream=True).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
    async with Standin() as engine, holding(clock, request) as (served, wire):
        clock.advance(QUIET)
        served.gateway.use(table([engine], version=2))
        assert (await wire.reply()).body == COMMENT + ANSWER


async def test_client_gone_ends_the_comments() -> None:
    clock = Clock()
    async with holding(clock, chat(stream=True)) as (served, wire):
        clock.advance(QUIET)
        wire.close()
        await until(lambda: not served.gateway.admission.waiting())
        assert not [timer for timer in clock.timers if timer.live]


async def test_keys_take_turns_at_a_replica() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        await standin.release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    keys = [key("busy"), key("quiet")]
    async with Standin(play=play) as engine, serving(table(keys=keys)) as served:
        asking = []
        for index, name in enumerate(["busy"] * 6 + ["quiet"] * 2):
            asking.append(asyncio.ensure_future(served.ask(chat(f"x-api-key: {name}", max_tokens=100))))
            await until(lambda index=index: served.gateway.admission.waiting() == {"tiny": index + 1})
        served.gateway.use(table([engine], version=2, keys=keys, capacity=1))
        engine.release.set()
        assert [(await one).status for one in asking] == [200] * 8
        served_to = [record.key for record in served.gateway.numbers.records]
        assert served_to[:5] == ["key-busy", "key-quiet", "key-busy", "key-quiet", "key-busy"]
