"""WebSockets through the gateway: byte by byte, and between a real client and a real server."""

from __future__ import annotations

import asyncio

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

from outrider.metrics.record import Outcome
from tests.gateway.client import DIGEST, Wire, chat, get, key, serving, table, until
from tests.gateway.standin import Asked, Standin

UPGRADE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: eA==")
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


class Echo:
    """A server that takes the upgrade and says every byte back."""

    def __init__(self, head: bytes = SWITCH) -> None:
        self.head = head
        self.asked: list[str] = []
        self.gone = asyncio.Event()

    async def __aenter__(self) -> Echo:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(self.head)
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
                if data.endswith(b"bye"):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self.gone.set()


async def opened(wire: Wire, path: str, *headers: str) -> bytes:
    """Ask for an upgrade; the head of the answer."""
    await wire.send(get(path, *UPGRADE, *headers))
    return await wire.reader.readuntil(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("path", "name", "task", "onward"),
    [
        ("/e/ws/chat?a=b", "ws", "custom", "GET /chat?a=b HTTP/1.1"),
        ("/v1/realtime?model=tiny", "tiny", "generate", "GET /v1/realtime?model=tiny HTTP/1.1"),
    ],
)
async def test_bytes_go_both_ways(path: str, name: str, task: str, onward: str) -> None:
    async with Echo() as echo, serving(table([echo.url], name=name, task=task)) as served:
        async with served.wire() as wire:
            head = await opened(wire, path, "X-Mine: 1", "Authorization: Bearer client")
            assert head.startswith(b"HTTP/1.1 101 ")
            assert f"x-outrider-revision: 2-{DIGEST[:12]}".encode() in head and b"x-request-id: req-" in head
            line, *lines = echo.asked[0].split("\r\n")
            assert line == onward
            assert "x-mine: 1" in lines and "upgrade: websocket" in lines and "connection: Upgrade" in lines
            assert "sec-websocket-key: eA==" in lines and "authorization: Bearer engine-key" in lines
            assert served.gateway.admission.loads == {"r0": 1}
            for data in (b"\x81\x05hello", bytes(range(256)) * 400):
                await wire.send(data)
                assert await wire.reader.readexactly(len(data)) == data
        async with asyncio.timeout(10):
            await echo.gone.wait()
        await until(served.idle)
        [record] = served.gateway.numbers.records
        assert (record.status, record.outcome, record.replica) == (101, Outcome.OK, "r0")
        assert not served.gateway.clients


async def test_the_replica_closes() -> None:
    async with Echo() as echo, serving(table([echo.url], name="ws", task="custom")) as served, served.wire() as wire:
        await opened(wire, "/e/ws/")
        await wire.send(b"good bye")
        assert await wire.reader.read() == b"good bye"


async def test_bytes_sent_ahead_arrive() -> None:
    async with Echo() as echo, serving(table(name="ws", task="custom")) as served, served.wire() as wire:
        await wire.send(get("/e/ws/", *UPGRADE) + b"early")
        await until(lambda: served.gateway.admission.waiting() == {"ws": 1})
        await wire.send(b" and late")
        served.gateway.use(table([echo.url], name="ws", task="custom", version=2))
        await wire.reader.readuntil(b"\r\n\r\n")
        assert await wire.reader.readexactly(14) == b"early and late"


async def test_a_refusal_of_the_replica_passes() -> None:
    refusal = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    async with (
        Echo(refusal) as echo,
        serving(table([echo.url], name="ws", task="custom")) as served,
        served.wire() as wire,
    ):
        assert (await opened(wire, "/e/ws/")).startswith(b"HTTP/1.1 403 ")


async def test_no_upgrade_without_a_key() -> None:
    async with Echo() as echo, serving(table([echo.url], name="ws", task="custom", keys=[key("good")])) as served:
        for headers, status in ((), 401), (("x-api-key: bad",), 401), (("x-api-key: good",), 101):
            async with served.wire() as wire:
                head = await opened(wire, "/e/ws/", *headers)
                assert head.startswith(b"HTTP/1.1 %d " % status)
        assert len(echo.asked) == 1


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/chat/completions", 400),
        ("/v1/realtime", 400),
        ("/v1/realtime?model=other", 404),
        ("/e/tiny/ws", 404),
        ("/update_weights_from_disk", 400),
    ],
)
async def test_no_other_way_in(path: str, status: int) -> None:
    async with Echo() as echo, serving(table([echo.url])) as served, served.wire() as wire:
        assert (await opened(wire, path)).startswith(b"HTTP/1.1 %d " % status)
        assert not echo.asked
        await wire.reader.read()


async def test_realtime_without_an_upgrade_says_what_is_missing() -> None:
    async with Standin() as engine, serving(table([engine])) as served:
        reply = await served.ask(get("/v1/realtime?model=tiny"))
        assert (reply.status, reply.headers["upgrade"]) == (426, "websocket")


async def test_a_tunnel_counts_against_capacity() -> None:
    async with (
        Echo() as echo,
        serving(table([echo.url], name="ws", task="custom", capacity=1)) as served,
        served.wire() as first,
        served.wire() as second,
    ):
        await opened(first, "/e/ws/")
        await second.send(get("/e/ws/", *UPGRADE))
        await until(lambda: served.gateway.admission.waiting() == {"ws": 1})
        first.close()
        assert (await second.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")


async def test_dead_replica_is_502_and_a_waiting_client_may_leave() -> None:
    async with Echo() as echo:
        url = echo.url
    async with serving(table([url], name="ws", task="custom")) as served:
        async with served.wire() as wire:
            assert (await opened(wire, "/e/ws/")).startswith(b"HTTP/1.1 502 ")
        served.gateway.use(table(name="ws", task="custom", version=2))
        async with served.wire() as wire:
            await wire.send(get("/e/ws/", *UPGRADE))
            await until(lambda: served.gateway.admission.waiting() == {"ws": 1})
        await until(lambda: not served.gateway.admission.waiting())


async def test_an_upgrade_behind_a_request_waits_its_turn() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        await standin.release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with Standin(play=play) as engine, Echo() as echo:
        both = table([engine])
        other = table([echo.url], name="ws", task="custom")
        both["endpoints"] += other["endpoints"]
        both["replicas"] += [{**other["replicas"][0], "id": "ws0"}]
        async with serving(both) as served, served.wire() as wire:
            await wire.send(chat())
            await engine.arrived.wait()
            await wire.send(get("/e/ws/", *UPGRADE))
            await wire.send(b"ahead")
            engine.release.set()
            assert (await wire.reply()).status == 200
            assert (await wire.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
            assert await wire.reader.readexactly(5) == b"ahead"


async def test_a_real_client_and_a_real_server() -> None:
    async def echo(socket: ServerConnection) -> None:
        async for message in socket:
            await socket.send(message)

    async with serve(echo, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with serving(table([f"http://127.0.0.1:{port}"], name="ws", task="custom")) as served:
            async with connect(f"ws://127.0.0.1:{served.port}/e/ws/any", proxy=None) as client:
                for message in ("hello", b"\x00" * 300_000, "ä" * 70_000):
                    await client.send(message)
                    assert await client.recv() == message
                await client.ping()
            await until(served.idle)
            assert served.gateway.numbers.records[-1].outcome is Outcome.OK
