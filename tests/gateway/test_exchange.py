"""Requests through a real gateway, over real sockets, to a stand-in engine."""

from __future__ import annotations

import asyncio
import json
from typing import cast

import pytest

from outrider.gateway.server import Client
from outrider.metrics.record import Outcome
from tests.gateway.client import DIGEST, chat, get, key, post, serving, table, until
from tests.gateway.standin import (
    DONE,
    ROLE,
    STREAM_HEAD,
    USAGE,
    Asked,
    Standin,
    chunk,
    content,
)


async def test_json_goes_through_with_its_headers() -> None:
    async with Standin() as engine, serving(table([engine])) as served:
        reply = await served.ask(chat("Authorization: Bearer client-secret", "x-api-key: other", "X-Mine: 1"))
        assert reply.status == 200
        assert reply.json()["choices"][0]["message"]["content"] == "standin"
        assert reply.headers["x-outrider-revision"] == f"2-{DIGEST[:12]}"
        assert reply.headers["x-request-id"].startswith("req-")
        assert reply.headers["server-timing"].startswith("gateway;dur=")
        assert "upstream;dur=" in reply.headers["server-timing"]
        [asked] = engine.asked
        assert asked.line == "POST /v1/chat/completions HTTP/1.1"
        assert asked.headers["authorization"] == "Bearer engine-key"
        assert "x-api-key" not in asked.headers
        assert asked.headers["x-mine"] == "1"
        assert asked.headers["x-request-id"] == reply.headers["x-request-id"]
        assert json.loads(asked.body)["model"] == "tiny"
        [record] = served.gateway.numbers.records
        assert (record.prompt_tokens, record.completion_tokens, record.status) == (7, 3, 200)
        assert record.outcome is Outcome.OK
        assert record.replica == "r0" and record.revision == 2
        assert 0 < record.overhead < record.e2e
        assert record.ttft is None


@pytest.mark.parametrize(("given", "kept"), [("abc-1.2", True), ("bad id", False), ("x" * 129, False)])
async def test_request_id_is_taken_over_when_sane(given: str, kept: bool) -> None:
    async with Standin() as engine, serving(table([engine])) as served:
        reply = await served.ask(chat(f"X-Request-Id: {given}"))
        assert (reply.headers["x-request-id"] == given) is kept


async def test_stream_gets_usage_asked_for_and_dropped() -> None:
    async with Standin() as engine, serving(table([engine])) as served:
        reply = await served.ask(chat(stream=True))
        assert reply.complete
        assert reply.body == ROLE + content("one") + content("two") + content("three") + DONE
        assert json.loads(engine.asked[0].body)["stream_options"] == {"include_usage": True}
        [record] = served.gateway.numbers.records
        assert (record.prompt_tokens, record.completion_tokens, record.stream) == (7, 3, True)
        assert record.ttft is not None and 0 < record.ttft <= record.e2e
        assert record.itl is not None


async def test_stream_keeps_usage_the_client_asked_for() -> None:
    async with Standin() as engine, serving(table([engine])) as served:
        request = chat(stream=True, stream_options={"include_usage": True})
        reply = await served.ask(request)
        assert reply.body == ROLE + content("one") + content("two") + content("three") + USAGE + DONE
        assert engine.asked[0].body == request.partition(b"\r\n\r\n")[2]


async def test_body_split_into_single_bytes_by_the_engine() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        data = STREAM_HEAD + b"".join(map(chunk, (ROLE, content("a"), content("b"), USAGE, DONE, b"")))
        for index in range(len(data)):
            writer.write(data[index : index + 1])
            await asyncio.sleep(0)

    async with Standin(play=play) as engine, serving(table([engine])) as served:
        reply = await served.ask(chat(stream=True))
        assert reply.body == ROLE + content("a") + content("b") + DONE


async def test_client_gone_closes_the_upstream() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(content("a")))
        await standin.release.wait()

    async with Standin(play=play) as engine, serving(table([engine])) as served:
        async with served.wire() as wire:
            await wire.send(chat(stream=True))
            assert (await wire.reader.readuntil(b"\n\n")).endswith(b"\n\n")
        async with asyncio.timeout(10):
            await engine.gone.wait()
        await until(served.idle)
        [record] = served.gateway.numbers.records
        assert record.outcome is Outcome.CLIENT_GONE


async def test_upstream_gone_in_a_stream_ends_with_an_error_event() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(content("a")) + chunk(b'data: {"half'))
        await writer.drain()
        await standin.release.wait()
        writer.transport.abort()

    async with Standin(play=play) as engine, serving(table([engine])) as served, served.wire() as wire:
        await wire.send(chat(stream=True))
        await engine.arrived.wait()
        asking = asyncio.ensure_future(wire.reply())
        await until(lambda: served.gateway.admission.loads)
        engine.release.set()
        reply = await asking
        whole, last = reply.body[: len(content("a"))], reply.body[len(content("a")) :]
        assert whole == content("a")
        assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "replica_failed"
        assert await wire.closed()
        [record] = served.gateway.numbers.records
        assert record.outcome is Outcome.UPSTREAM_GONE


async def test_upstream_gone_in_json_cuts_the_answer() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        writer.close()

    async with Standin(play=play) as engine, serving(table([engine])) as served, served.wire() as wire:
        await wire.send(chat())
        try:
            reply = await wire.reply()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        assert not reply.complete


async def test_connect_refused_goes_to_another_replica() -> None:
    async with Standin() as dead:
        url = dead.url
    async with Standin("alive") as engine, serving(table([url, url, engine])) as served:
        for _ in range(5):
            reply = await served.ask(chat())
            assert reply.json()["choices"][0]["message"]["content"] == "alive"


async def test_three_dead_replicas_are_a_502() -> None:
    async with Standin() as dead:
        url = dead.url
    async with serving(table([url, url, url, url])) as served:
        reply = await served.ask(chat())
        assert reply.status == 502
        assert reply.json()["error"]["code"] == "replica_failed"
        assert served.gateway.numbers.retries["tiny"] == 2


async def test_replica_that_closes_before_its_first_byte_is_replaced() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with (
        Standin(play=play) as bad,
        Standin("good") as good,
        serving(table([bad, good]), clock=lambda: 100.0) as served,
    ):
        for _ in range(50):
            reply = await served.ask(chat())
            assert reply.json()["choices"][0]["message"]["content"] == "good"
        assert len(bad.asked) == 1, "it is passed over from its first failure on"


async def test_stale_pooled_connection_is_replaced() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if standin.connections == 1 and len(standin.asked) == 2:
            writer.transport.abort()  # what a keep-alive timeout looks like when it fires as the request arrives
            return
        body = b"{}"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + body)

    async with Standin(play=play) as engine, serving(table([engine])) as served:
        assert (await served.ask(chat())).status == 200
        assert (await served.ask(chat())).status == 200
        assert engine.connections == 2
        assert [record.retries for record in served.gateway.numbers.records] == [0, 0]


async def test_idle_upstream_connections_are_not_kept_for_long() -> None:
    now = [100.0]
    async with Standin() as engine, serving(table([engine]), clock=lambda: now[0]) as served:
        assert (await served.ask(chat())).status == 200
        now[0] += 3.9
        served.gateway.sweep()
        assert (await served.ask(chat())).status == 200
        assert engine.connections == 1
        now[0] += 4.1
        assert not engine.gone.is_set()
        served.gateway.sweep()
        async with asyncio.timeout(10):
            await engine.gone.wait()
        assert (await served.ask(chat())).status == 200
        assert engine.connections == 2


async def test_upstream_connections_are_reused() -> None:
    async with Standin() as engine, serving(table([engine])) as served, served.wire() as wire:
        for _ in range(5):
            await wire.send(chat())
            assert (await wire.reply()).status == 200
        assert engine.connections == 1


async def test_held_until_the_table_names_a_replica() -> None:
    woken: list[str] = []
    now = [100.0]
    async with Standin() as engine, serving(table(), wake=woken.append, clock=lambda: now[0]) as served:
        asking = asyncio.ensure_future(served.ask(chat()))
        await until(lambda: served.gateway.admission.waiting() == {"tiny": 1})
        assert woken == ["tiny"]
        now[0] += 5.0
        served.gateway.use(table([engine], version=2))
        reply = await asking
        assert reply.status == 200
        assert reply.headers["server-timing"] == "gateway;dur=0.000, upstream;dur=0.000, waiting;dur=5000.000"
        [record] = served.gateway.numbers.records
        assert (record.waited, record.overhead, record.e2e) == (5.0, 0.0, 5.0)


async def test_503_after_the_deadline() -> None:
    async with serving(table(), deadline=0.02) as served:
        reply = await served.ask(chat())
        assert reply.status == 503
        assert int(reply.headers["retry-after"]) > 0
        assert reply.json()["error"]["code"] == "no_ready_replica"


@pytest.mark.parametrize("state", ["stopped", "failed"])
async def test_503_at_once_where_waiting_is_no_use(state: str) -> None:
    async with serving(table(state=state, reason="disk full")) as served:
        reply = await served.ask(chat())
        assert reply.status == 503
        assert "disk full" in reply.json()["error"]["message"]


async def test_capacity_holds_the_second_until_the_first_is_done() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        await standin.release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with Standin(play=play) as engine, serving(table([engine], capacity=1)) as served:
        both = [asyncio.ensure_future(served.ask(chat())) for _ in range(2)]
        await until(lambda: served.gateway.admission.waiting() == {"tiny": 1} and len(engine.asked) == 1)
        assert served.gateway.admission.loads == {"r0": 1}
        engine.release.set()
        assert [(await one).status for one in both] == [200, 200]


async def test_client_gone_while_waiting_leaves_the_room() -> None:
    async with serving(table()) as served:
        async with served.wire() as wire:
            await wire.send(chat())
            await until(lambda: served.gateway.admission.waiting() == {"tiny": 1})
        await until(lambda: not served.gateway.admission.waiting())


async def test_slow_client_pauses_the_engine() -> None:
    sent = 0

    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 67108864\r\n\r\n")
        for _ in range(1024):
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    async with Standin(play=play) as engine, serving(table([engine])) as served, served.wire() as wire:
        transport = cast(asyncio.Transport, wire.writer.transport)
        transport.pause_reading()
        await wire.send(chat())
        await until(lambda: any(isinstance(client, Client) and client.blocked for client in served.gateway.clients))
        for _ in range(200):  # while others are served, the engine could have sent it all
            assert (await served.ask(get("/healthz"))).status == 200
        assert sent < 32 * 1024 * 1024
        transport.resume_reading()
        assert len((await wire.reply()).body) == 67108864


async def test_keys() -> None:
    keys = [
        key("good"),
        key("admin", scopes=["admin"]),
        key("elsewhere", endpoints=["other"]),
        key("here", endpoints=["tiny"]),
        key("old", expires_at=1),
    ]
    async with Standin() as engine, serving(table([engine], keys=keys)) as served:

        async def status(*headers: str) -> int:
            return (await served.ask(chat(*headers))).status

        assert await status() == 401
        assert await status("Authorization: Bearer wrong") == 401
        assert await status("Authorization: Bearer old") == 401
        assert await status("Authorization: Bearer admin") == 403
        assert await status("Authorization: Bearer elsewhere") == 403
        assert await status("Authorization: bearer good") == 200
        assert await status("x-api-key: here") == 200
        assert served.gateway.numbers.records[-1].key == "key-here"
        assert (await served.ask(get("/v1/models"))).status == 401
        listed = await served.ask(get("/v1/models", "Authorization: Bearer elsewhere"))
        assert listed.json()["data"] == []
        unknown = await served.ask(post("/v1/chat/completions", {"model": "tinny"}))
        assert unknown.status == 401


async def test_unauthenticated_endpoint_needs_no_key() -> None:
    async with Standin() as engine, serving(table([engine], keys=[key("good")], unauthenticated=True)) as served:
        assert (await served.ask(chat())).status == 200
        assert [one["id"] for one in (await served.ask(get("/v1/models"))).json()["data"]] == ["tiny"]


async def test_custom_server_is_reached_under_its_name() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + asked.line.encode())
        writer.close()

    async with Standin(play=play) as engine, serving(table([engine], name="hello", task="custom")) as served:
        reply = await served.ask(get("/e/hello/a/b?c=d"))
        assert reply.body == b"GET /a/b?c=d HTTP/1.1"
        assert (await served.ask(get("/e/hello"))).body == b"GET / HTTP/1.1"
        assert (await served.ask(get("/e/hello?x", method="DELETE"))).body == b"DELETE /?x HTTP/1.1"
        head = await served.ask(get("/e/hello/", method="HEAD"), head_only=True)
        assert head.status == 200
        assert (await served.ask(get("/e/other/"))).status == 404
        assert served.gateway.numbers.records[0].slices is None


@pytest.mark.parametrize(("method", "times"), [("POST", 1), ("PATCH", 1), ("GET", 2), ("PUT", 2)])
async def test_custom_request_that_may_have_been_done_is_not_sent_twice(method: str, times: int) -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with Standin(play=play) as engine, serving(table([engine, engine], name="hello", task="custom")) as served:
        async with served.wire() as wire:
            await wire.send(get("/e/hello/", "Content-Length: 0", method=method))
            if times == 1:
                reply = await wire.reply()
                assert (reply.status, reply.json()["error"]["code"]) == (502, "replica_failed")
            else:
                await until(lambda: served.gateway.admission.waiting() == {"hello": 1})
        assert len(engine.asked) == times
        await until(served.idle)


async def test_model_endpoint_is_not_reached_under_its_name() -> None:
    async with Standin() as engine, serving(table([engine])) as served:
        reply = await served.ask(post("/e/tiny/update_weights_from_disk", {}))
        assert reply.status == 404
        assert not engine.asked


async def test_engine_error_passes_and_is_counted() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\nX-Why: y\r\n\r\noops")

    async with Standin(play=play) as engine, serving(table([engine])) as served:
        reply = await served.ask(chat())
        assert (reply.status, reply.body, reply.headers["x-why"]) == (500, b"oops", "y")
        assert served.gateway.numbers.records[0].outcome is Outcome.FAILED


async def test_nonsense_from_the_engine_is_a_502() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"NOT HTTP AT ALL\r\n\r\n")
        await standin.release.wait()

    async with Standin(play=play) as engine, serving(table([engine, engine, engine])) as served:
        assert (await served.ask(chat())).status == 502


async def test_gzip_is_untouched() -> None:
    body = bytes(range(256)) * 10

    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
        writer.write(head + b"Content-Length: 2560\r\n\r\n" + body)

    async with Standin(play=play) as engine, serving(table([engine])) as served:
        reply = await served.ask(chat("Accept-Encoding: gzip"))
        assert reply.body == body and reply.headers["content-encoding"] == "gzip"
        assert engine.asked[0].headers["accept-encoding"] == "gzip"
