"""Replicas that fail, in every way they do, over real sockets."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from random import Random
from typing import Any

import pytest

from outrider.gateway import halfopen
from outrider.gateway.retries import LEAST
from outrider.gateway.timeouts import Timeouts
from outrider.metrics.record import Outcome
from tests.gateway.client import Served, chat, post, serving, table, until
from tests.gateway.standin import DONE, STREAM_HEAD, Asked, Play, Standin, chunk, content

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def says(status: int) -> Play:
    """An engine that answers with a status, in its own words."""

    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        body = b'{"error": {"message": "mine"}}'
        writer.write(b"HTTP/1.1 %d Says\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))

    return play


async def held(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
    """An engine that answers when it is released."""
    await standin.release.wait()
    writer.write(OK)


async def silent(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
    """An engine that never answers."""
    await asyncio.Event().wait()


async def unused_url() -> str:
    """Where nobody listens."""
    async with Standin() as dead:
        return dead.url


@pytest.mark.parametrize("status", [429, 502, 503])
async def test_what_one_replica_refuses_another_does(status: int) -> None:
    async with (
        Standin(play=says(status)) as bad,
        Standin("good") as good,
        serving(table([bad, good]), rng=Random(1)) as served,
    ):
        for _ in range(3):
            reply = await served.ask(chat())
            assert reply.json()["choices"][0]["message"]["content"] == "good"
        assert bad.asked, "the refusing one was asked, too"


@pytest.mark.parametrize("status", [429, 502, 503])
async def test_what_all_replicas_refuse_passes_in_their_words(status: int) -> None:
    async with Standin(play=says(status)) as bad, serving(table([bad, bad, bad, bad])) as served:
        reply = await served.ask(chat())
        assert (reply.status, reply.json()["error"]["message"]) == (status, "mine")
        assert len(bad.asked) == 3
        assert served.gateway.numbers.records[-1].retries == 2


@pytest.mark.parametrize("status", [400, 404, 500, 504])
async def test_other_answers_are_final(status: int) -> None:
    async with Standin(play=says(status)) as bad, Standin() as good, serving(table([bad, good])) as served:
        statuses = {(await served.ask(chat())).status for _ in range(20)}
        assert status in statuses
        assert all(record.retries == 0 for record in served.gateway.numbers.records)


async def test_the_only_replica_refuses_for_itself() -> None:
    async with Standin(play=says(503)) as bad, serving(table([bad])) as served:
        assert (await served.ask(chat())).json()["error"]["message"] == "mine"
        assert len(bad.asked) == 1


async def test_a_refusing_fleet_is_not_asked_twice_for_everything() -> None:
    now = [100.0]
    async with Standin(play=says(503)) as bad, serving(table([bad] * 4), clock=lambda: now[0]) as served:
        for _ in range(20):
            assert (await served.ask(chat())).status == 503
        assert len(bad.asked) == 20 + LEAST


async def test_all_that_a_dead_replica_had_in_flight_is_sent_again() -> None:
    async with Standin(play=held) as dying, Standin("alive") as alive, serving(table([dying])) as served:
        asking = [asyncio.ensure_future(served.ask(chat())) for _ in range(30)]
        await until(lambda: len(dying.asked) == 30)
        served.gateway.use(table([dying, alive], version=2))
        await dying.stop()
        names = [(await one).json()["choices"][0]["message"]["content"] for one in asking]
        assert names == ["alive"] * 30


async def test_dead_replicas_of_the_table_are_passed_over_until_they_are_back() -> None:
    now = [100.0]
    back = Standin("back")
    async with back:
        pass
    async with Standin("alive") as alive, serving(table([back, alive]), clock=lambda: now[0]) as served:
        for _ in range(50):
            assert (await served.ask(chat())).status == 200
        retried = sum(record.retries for record in served.gateway.numbers.records)
        assert retried == 1, "one connect told of it"
        assert len(alive.asked) == 50
        async with back:
            now[0] += 0.6
            for _ in range(20):
                assert (await served.ask(chat())).status == 200
            assert back.asked
            assert not served.gateway.admission.suspects


async def test_a_table_of_dead_replicas_only_is_still_tried() -> None:
    async with serving(table([await unused_url()] * 3)) as served:
        for _ in range(2):
            reply = await served.ask(chat())
            assert reply.status == 502
            assert reply.json()["error"]["type"] == "server_error"


async def test_killed_before_the_first_byte() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        await standin.release.wait()
        reset(writer)

    async with Standin(play=play) as dying, Standin("alive") as alive, serving(table([dying])) as served:
        asking = asyncio.ensure_future(served.ask(chat(stream=True)))
        await dying.arrived.wait()
        served.gateway.use(table([dying, alive], version=2))
        dying.release.set()
        reply = await asking
        assert reply.complete and reply.body.endswith(DONE)
        assert served.gateway.numbers.records[-1].retries == 1


@pytest.mark.parametrize("first", [b"HTTP/1.1 2", STREAM_HEAD, STREAM_HEAD + chunk(content("a"))])
async def test_killed_after_the_first_byte_is_never_sent_again(first: bytes) -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await writer.drain()
        await standin.release.wait()
        reset(writer)

    async with Standin(play=play) as dying, Standin("alive") as alive, serving(table([dying])) as served:
        async with served.wire() as wire:
            await wire.send(chat("Connection: close", stream=True))
            await dying.arrived.wait()
            if first.startswith(STREAM_HEAD):
                await wire.reader.readuntil(b"\r\n\r\n")
            served.gateway.use(table([dying, alive], version=2))
            dying.release.set()
            got = await wire.reader.read()
        if first.startswith(STREAM_HEAD):
            assert got.count(b'"replica_failed"') == 1
            assert not alive.asked
        else:  # half a status line: no byte has reached the client
            assert b"200" in got and len(alive.asked) == 1


@pytest.mark.parametrize(
    ("path", "name", "kind"),
    [
        ("/v1/chat/completions", b"", "server_error"),
        ("/v1/completions", b"", "server_error"),
        ("/v1/responses", b"event: error\n", "server_error"),
        ("/v1/messages", b"event: error\n", "api_error"),
        ("/v1/messages?beta=true", b"event: error\n", "api_error"),
    ],
)
async def test_the_last_event_is_in_the_form_of_the_api(path: str, name: bytes, kind: str) -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(b"event: ping\ndata: {}\n\n"))
        await writer.drain()
        writer.close()

    async with Standin(play=play) as engine, serving(table([engine])) as served, served.wire() as wire:
        await wire.send(post(path, {"model": "tiny", "stream": True}))
        reply = await wire.reply()
        assert await wire.closed()
        last = reply.body.removeprefix(b"event: ping\ndata: {}\n\n")
        assert last.startswith(name + b"data: ")
        data = json.loads(last.removeprefix(name + b"data: "))
        assert data["error"]["type"] == kind
        assert (data.get("type") == "error") is bool(name)


async def test_half_open_replica_is_given_up_in_time() -> None:
    """It accepts and says nothing more, as a machine does that lost its power."""
    now = [100.0]
    timeouts = Timeouts(first_byte=10)
    async with (
        Standin(play=silent) as engine,
        serving(table([engine]), clock=lambda: now[0], timeouts=timeouts) as served,
    ):
        asking = asyncio.ensure_future(served.ask(chat()))
        await engine.arrived.wait()
        now[0] += 9
        served.gateway.sweep()
        assert not asking.done()
        now[0] += 2
        served.gateway.sweep()
        reply = await asking
        assert (reply.status, reply.json()["error"]["code"]) == (504, "timeout")
        assert served.gateway.numbers.records[-1].outcome is Outcome.TIMED_OUT
        async with asyncio.timeout(10):
            await engine.gone.wait()


async def test_a_stream_that_stands_still_ends_with_an_error_event() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(content("a")))
        await asyncio.Event().wait()

    now = [100.0]
    timeouts = Timeouts(idle=10)
    async with (
        Standin(play=play) as engine,
        serving(table([engine]), clock=lambda: now[0], timeouts=timeouts) as served,
        served.wire() as wire,
    ):
        await wire.send(chat(stream=True))
        await wire.reader.readuntil(content("a"))
        now[0] += 11
        served.gateway.sweep()
        assert b'"timeout"' in await wire.reader.read()


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD)
        while True:
            writer.write(chunk(content("x" * 60_000)))
            await writer.drain()

    now = [100.0]
    async with Standin(play=play) as engine, serving(table([engine]), clock=lambda: now[0]) as served:
        async with served.wire() as wire:
            wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await wire.send(chat(stream=True))
            await until(lambda: any(getattr(client, "blocked", False) for client in served.gateway.clients))
            now[0] += 301
            served.gateway.sweep()
            await until(lambda: not served.gateway.clients)
            async with asyncio.timeout(10):
                await engine.gone.wait()
        assert served.gateway.numbers.records[-1].outcome is Outcome.TIMED_OUT


async def test_the_clients_own_limit() -> None:
    async with Standin(play=silent) as engine, serving(table([engine])) as served:
        reply = await served.ask(chat("Outrider-Timeout: 0.05"))
        assert reply.status == 504
        assert "0.05 s" in reply.json()["error"]["message"]


async def test_the_clients_own_limit_while_it_waits() -> None:
    async with serving(table()) as served:
        reply = await served.ask(chat("Outrider-Timeout: 0.05"))
        assert reply.status == 503
        assert int(reply.headers["retry-after"]) > 0


async def test_slow_head_and_slow_body_are_408() -> None:
    now = [100.0]
    async with serving(table(), clock=lambda: now[0]) as served, served.wire() as slow, served.wire() as stuck:
        await slow.send(b"GET /healthz HTTP/1.1\r\n")
        await stuck.send(chat()[:-5])
        await until(lambda: len(served.gateway.clients) == 2)
        await until(lambda: [one._head_bytes > 0 or one._in_body for one in clients(served)] == [True, True])
        now[0] += 29
        await slow.send(b"X: ")
        await until(lambda: any(one.active_at == now[0] for one in clients(served)))
        served.gateway.sweep()
        now[0] += 2
        served.gateway.sweep()
        reply = await slow.reply()
        assert (reply.status, reply.json()["error"]["code"]) == (408, "request_timeout")
        now[0] += 30
        served.gateway.sweep()
        assert (await stuck.reply()).status == 408


async def test_the_kernel_watches_both_sides_for_peers_that_vanish() -> None:
    async with Standin(play=held) as engine, serving(table([engine])) as served, served.wire() as wire:
        await wire.send(chat())
        await engine.arrived.wait()
        [client] = clients(served)
        for transport in (client.transport, client._exchange._connection._transport):
            options = transport.get_extra_info("socket")
            assert options.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert options.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == halfopen.IDLE
            assert options.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == halfopen.UNANSWERED
        engine.release.set()
        assert (await wire.reply()).status == 200


def clients(served: Served) -> list[Any]:
    """Connections, as they are inside."""
    return list(served.gateway.clients)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with RST, as a killed process with unread bytes does."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
