"""What clients may do to a connection, over real sockets."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref

import pytest

from outrider.gateway.server import HEAD_LIMIT
from tests.gateway.client import chat, get, post, serving, table, until
from tests.gateway.standin import Asked, Standin


async def test_keep_alive_serves_request_after_request() -> None:
    async with Standin() as engine, serving(table([engine])) as served, served.wire() as wire:
        for _ in range(3):
            await wire.send(chat())
            assert (await wire.reply()).status == 200
            await wire.send(chat(stream=True))
            assert (await wire.reply()).complete
            await wire.send(get("/healthz"))
            assert (await wire.reply()).status == 200
        assert len(served.gateway.clients) == 1


async def test_connection_close_is_honoured() -> None:
    async with Standin() as engine, serving(table([engine])) as served, served.wire() as wire:
        await wire.send(post("/v1/chat/completions", {"model": "tiny"}, close=True))
        reply = await wire.reply()
        assert reply.headers["connection"] == "close"
        assert await wire.closed()


async def test_http_1_0_gets_no_chunks() -> None:
    async with Standin() as engine, serving(table([engine])) as served, served.wire() as wire:
        await wire.send(chat(stream=True).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        reply = await wire.reply()
        assert "transfer-encoding" not in reply.headers
        assert reply.body.endswith(b"data: [DONE]\n\n")


async def test_pipelined_requests_are_answered_in_order() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        data = asked.headers["x-n"].encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(data), data))

    async with Standin(play=play) as engine, serving(table([engine])) as served, served.wire() as wire:
        await wire.send(b"".join(chat(f"X-N: {n}") + get("/healthz") for n in range(40)))
        for n in range(40):
            assert (await wire.reply()).body == str(n).encode()
            assert (await wire.reply()).json()["status"] == "ok"


async def test_many_pipelined_local_answers_do_not_recurse() -> None:
    async with serving(table()) as served, served.wire() as wire:
        await wire.send(get("/healthz") * 3000)
        for _ in range(3000):
            assert (await wire.reply()).status == 200


async def test_one_byte_at_a_time() -> None:
    async with Standin() as engine, serving(table([engine])) as served, served.wire() as wire:
        request = chat(stream=True)
        await wire.send(request, one_by_one=True)
        assert (await wire.reply()).body.endswith(b"data: [DONE]\n\n")
        assert json.loads(engine.asked[0].body)["messages"][0]["content"] == "hello"


async def test_chunked_request_body() -> None:
    async with Standin() as engine, serving(table([engine])) as served, served.wire() as wire:
        body = json.dumps({"model": "tiny", "prompt": "abc"}).encode()
        head = b"POST /v1/completions HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        await wire.send(head + chunks + b"0\r\nAuthorization: Bearer trailer\r\n\r\n")
        assert (await wire.reply()).status == 200
        assert engine.asked[0].body == body
        assert engine.asked[0].headers["content-length"] == str(len(body))
        assert "transfer-encoding" not in engine.asked[0].headers


async def test_expect_100_continue() -> None:
    async with Standin() as engine, serving(table([engine])) as served, served.wire() as wire:
        head, _, body = chat("Expect: 100-continue").partition(b"\r\n\r\n")
        await wire.send(head + b"\r\n\r\n")
        assert (await wire.reply()).status == 100
        await wire.send(body)
        assert (await wire.reply()).status == 200
        assert "expect" not in engine.asked[0].headers


async def test_too_large_a_body_is_refused_before_it_is_sent() -> None:
    async with serving(table(), body_limit=100) as served, served.wire() as wire:
        await wire.send(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 101\r\nExpect: 100-continue\r\n\r\n")
        reply = await wire.reply()
        assert reply.status == 413
        assert reply.json()["error"]["code"] == "body_too_large"
        assert await wire.closed()


async def test_too_large_a_chunked_body() -> None:
    async with serving(table(), body_limit=100) as served, served.wire() as wire:
        await wire.send(b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        await wire.send(b"32\r\n%b\r\n" % (b"x" * 50) * 3)
        assert (await wire.reply()).status == 413


@pytest.mark.parametrize("whole", [True, False])
async def test_too_large_a_head(whole: bool) -> None:
    async with serving(table()) as served, served.wire() as wire:
        line = b"X-Long: " + b"y" * 8000 + b"\r\n"
        await wire.send(b"GET /healthz HTTP/1.1\r\n" + line * (HEAD_LIMIT // 8000 + 1) + (b"\r\n" if whole else b""))
        reply = await wire.reply()
        assert reply.status == 431
        assert reply.json()["error"]["type"] == "invalid_request_error"


async def test_head_up_to_the_limit_is_served() -> None:
    async with serving(table()) as served:
        assert (await served.ask(get("/healthz", "X-Long: " + "y" * (HEAD_LIMIT - 1000)))).status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"GET /healthz HTTP/1.1\nHost: x\n\n",
        b"GET /healthz HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /healthz HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_what_is_not_http_gets_400_and_a_close(data: bytes) -> None:
    async with serving(table()) as served, served.wire() as wire:
        await wire.send(data)
        reply = await wire.reply()
        assert reply.status == 400
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
        assert await wire.closed()


async def test_bad_request_behind_a_good_one_waits_its_turn() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        await standin.release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with Standin(play=play) as engine, serving(table([engine])) as served, served.wire() as wire:
        await wire.send(chat())
        await engine.arrived.wait()
        await wire.send(b"NONSENSE\r\n\r\n")
        engine.release.set()
        assert (await wire.reply()).status == 200
        assert (await wire.reply()).status == 400


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        (b"\xff", None),
        (b"[" * 100_000, None),
        (b"{}", "model"),
        (b'{"model": 1}', "model"),
        (b'{"model": ""}', "model"),
    ],
)
async def test_bad_bodies_are_400_and_the_connection_goes_on(body: bytes, param: str | None) -> None:
    async with serving(table()) as served, served.wire() as wire:
        await wire.send(post("/v1/chat/completions", body))
        reply = await wire.reply()
        assert reply.status == 400
        assert reply.json()["error"]["param"] == param
        await wire.send(get("/healthz"))
        assert (await wire.reply()).status == 200


async def test_absolute_target_is_understood() -> None:
    async with serving(table()) as served:
        assert (await served.ask(get("http://gateway/healthz?a=b"))).status == 200


async def test_silent_connections_are_closed() -> None:
    now = [0.0]
    async with serving(table(), clock=lambda: now[0]) as served, served.wire() as wire:
        await wire.send(get("/healthz"))
        assert (await wire.reply()).status == 200
        now[0] = 299.0
        served.gateway.sweep()
        assert len(served.gateway.clients) == 1
        now[0] = 301.0
        served.gateway.sweep()
        assert await wire.closed()
        await until(lambda: not served.gateway.clients)


async def test_stop_finishes_what_is_in_flight() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        await standin.release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with (
        Standin(play=play) as engine,
        serving(table([engine])) as served,
        served.wire() as busy,
        served.wire() as idle,
    ):
        await idle.send(get("/healthz"))
        assert (await idle.reply()).status == 200
        await busy.send(chat())
        await engine.arrived.wait()
        stopping = asyncio.ensure_future(served.gateway.stop(grace=10))
        assert await idle.closed()
        with pytest.raises(ConnectionError):
            await served.ask(get("/healthz"))
        engine.release.set()
        reply = await busy.reply()
        assert (reply.status, reply.headers["connection"]) == (200, "close")
        await stopping


async def test_closed_connections_are_freed_without_the_collector() -> None:
    async with Standin() as engine, serving(table([engine])) as served:
        gc.disable()
        try:
            async with served.wire() as wire:
                await wire.send(chat())
                assert (await wire.reply()).status == 200
                (one,) = served.gateway.clients
                (other,) = served.gateway.pool(served.gateway.table.replicas["r0"])._idle
                client, connection = weakref.ref(one), weakref.ref(other)
                del one, other
            served.gateway.use(table())
            await until(lambda: client() is None and connection() is None)
        finally:
            gc.enable()
