"""What engines may do to a connection."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.client import chat, get, serving, table
from tests.gateway.standin import Asked, Standin

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


async def test_interim_answers_are_passed_over() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        await writer.drain()
        writer.write(OK)

    async with Standin(play=play) as engine, serving(table([engine])) as served:
        for _ in range(2):
            reply = await served.ask(chat())
            assert (reply.status, reply.body) == (200, b"{}")
            assert "link" not in reply.headers
        assert engine.connections == 1


async def test_bytes_nobody_asked_for_end_the_connection() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(OK)
        await standin.release.wait()
        writer.write(OK)

    async with Standin(play=play) as engine, serving(table([engine])) as served:
        assert (await served.ask(chat())).body == b"{}"
        engine.release.set()
        async with asyncio.timeout(10):
            await engine.gone.wait()
        assert (await served.ask(chat())).body == b"{}"
        assert engine.connections == 2


async def test_headers_of_the_connection_end_here() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nConnection: keep-alive\r\nX-Request-Id: theirs\r\n"
        writer.write(head + b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n")

    async with Standin(play=play) as engine, serving(table([engine])) as served:
        reply = await served.ask(chat("Connection: X-Hop, keep-alive", "X-Hop: 1", "TE: trailers", "X-Stays: 1"))
        assert "keep-alive" not in reply.headers
        assert reply.headers["x-request-id"] != "theirs"
        asked = engine.asked[0].headers
        assert "x-hop" not in asked and "te" not in asked and asked["x-stays"] == "1"


@pytest.mark.parametrize("status", [204, 304])
async def test_answers_without_a_body(status: int) -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 %d X\r\n\r\n" % status)

    async with Standin(play=play) as engine, serving(table([engine], name="hello", task="custom")) as served:
        async with served.wire() as wire:
            for _ in range(2):
                await wire.send(get("/e/hello/"))
                assert (await wire.reply()).status == status
        assert engine.connections == 1


async def test_limits_of_the_engine_pass() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 429 Slow Down\r\nRetry-After: 9\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async with Standin(play=play) as engine, serving(table([engine])) as served:
        reply = await served.ask(chat())
        assert (reply.status, reply.headers["retry-after"]) == (429, "9")
