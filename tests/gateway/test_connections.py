"""What networks and processes do to connections: kills, resets, half-open peers, floods, dead tables, no controller."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import struct
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from outrider.gateway.link import Link
from outrider.gateway.server import HEAD_LIMIT
from tests.gateway.client import Served, Wire, chat, get, serving, table, until
from tests.gateway.standin import DONE, ROLE, STREAM_HEAD, Asked, Standin, chunk, content
from tests.gateway.test_link import Controller, quick

STREAM = STREAM_HEAD + chunk(ROLE) + chunk(content("a"))
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"

REPLICA = """
import asyncio, sys
from tests.gateway.standin import Standin, answer_json

first = bytes.fromhex(sys.argv[1])

async def play(standin, asked, writer):
    if len(sys.argv) > 2 and len(standin.asked) <= int(sys.argv[2]):
        return await answer_json(standin, asked, writer)
    writer.write(first)
    await writer.drain()
    print("asked", flush=True)
    await standin.release.wait()

async def main():
    async with Standin(play=play) as engine:
        print(engine.port, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


class Process:
    """A stand-in engine in a process of its own, which can be killed as the kernel kills."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{port}"

    async def asked(self) -> None:
        """Wait until a request has come that is not answered whole."""
        assert self._process.stdout is not None
        async with asyncio.timeout(10):
            assert await self._process.stdout.readline() == b"asked\n"

    async def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
        await self._process.wait()


@asynccontextmanager
async def replica(first: bytes, *whole: int) -> AsyncIterator[Process]:
    """A process that sends ``first`` and no more in answer to each request; the first ``whole`` ones are answered."""
    arguments = (first.hex(), *map(str, whole))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", REPLICA, *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with asyncio.timeout(20):
        port = int(await process.stdout.readline())
    started = Process(process, port)
    try:
        yield started
    finally:
        await started.kill()


def reset(wire: Wire) -> None:
    """Close with RST in the place of FIN."""
    sock = wire.writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.writer.transport.abort()


async def hold(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Send the beginning of a stream, and no more."""
    writer.write(STREAM)
    await standin.release.wait()


async def silent(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
    """Send nothing."""
    await standin.release.wait()


async def test_replica_killed_before_its_first_byte_is_replaced() -> None:
    async with replica(b"") as bad, serving(table([bad.url])) as served, Standin("good") as good:
        asking = asyncio.ensure_future(served.ask(chat(stream=True)))
        await bad.asked()
        served.gateway.use(table([bad.url, good], version=2))
        await bad.kill()
        reply = await asking
        assert reply.status == 200 and reply.complete and reply.body.endswith(DONE)
        assert len(good.asked) == 1


async def test_replica_killed_in_a_head_is_replaced() -> None:
    async with replica(STREAM_HEAD[:40]) as bad, serving(table([bad.url])) as served, Standin("good") as good:
        asking = asyncio.ensure_future(served.ask(chat()))
        await bad.asked()
        served.gateway.use(table([bad.url, good], version=2))
        await bad.kill()
        assert (await asking).json()["choices"][0]["message"]["content"] == "good"


async def test_replica_killed_after_its_first_byte_is_not_replaced() -> None:
    async with replica(STREAM) as bad, serving(table([bad.url])) as served, Standin("good") as good:
        async with served.wire() as wire:
            await wire.send(chat(stream=True))
            await bad.asked()
            served.gateway.use(table([bad.url, good], version=2))
            await bad.kill()
            reply = await wire.reply()
            assert await wire.closed()
        sent, _, error = reply.body.partition(ROLE + content("a"))
        assert not sent and json.loads(error.removeprefix(b"data: "))["error"]["code"] == "replica_failed"
        assert not good.asked


async def test_replica_killed_in_a_json_answer_cuts_it() -> None:
    async with replica(JSON) as bad, serving(table([bad.url])) as served, Standin("good") as good:
        async with served.wire() as wire:
            await wire.send(chat())
            await bad.asked()
            served.gateway.use(table([bad.url, good], version=2))
            await bad.kill()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await wire.reader.readexactly(10_000)
        assert not good.asked


async def test_replica_killed_between_two_requests() -> None:
    async with replica(b"", 1) as bad, serving(table([bad.url])) as served, Standin("good") as good:
        assert (await served.ask(chat())).status == 200
        await bad.kill()
        served.gateway.use(table([bad.url, good], version=2))
        for _ in range(4):
            assert (await served.ask(chat())).json()["choices"][0]["message"]["content"] == "good"


@pytest.mark.parametrize("first", [b"", STREAM_HEAD[:30], STREAM, STREAM + b"ff", JSON], ids=range(5))
async def test_replica_that_resets(first: bytes) -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        await writer.drain()
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async with Standin(play=play) as bad, Standin("good") as good, serving(table([bad, good])) as served:
        for _ in range(3):  # as many as may be sent again whatever happens
            async with served.wire() as wire:
                await wire.send(chat(stream=True))
                async with asyncio.timeout(10):
                    try:
                        reply = await wire.reply()
                    except (asyncio.IncompleteReadError, ConnectionError):
                        assert first == JSON
                        continue
                whole = reply.status == 200 and reply.body.endswith(DONE)
                assert whole or b"replica_failed" in reply.body or not reply.complete
                assert whole or b"\r\n\r\n" in first  # before that nobody notices
        await until(served.idle)


@pytest.mark.parametrize("close", [reset, Wire.close], ids=["reset", "close"])
async def test_clients_that_leave_at_any_byte(close: object) -> None:
    request = chat(stream=True)
    async with Standin(play=hold) as engine, serving(table([engine])) as served:
        for length in range(0, len(request) + 1, 7):
            async with served.wire() as wire:
                await wire.send(request[:length])
                reset(wire) if close is reset else wire.close()
        await until(lambda: served.idle() and not served.gateway.clients)
        async with served.wire() as wire:
            await wire.send(request)
            await wire.reader.readuntil(b"\n\n")
            reset(wire) if close is reset else wire.close()
        await until(lambda: served.idle() and not served.gateway.clients)
        async with asyncio.timeout(10):
            await engine.gone.wait()


async def test_client_that_resets_while_it_waits() -> None:
    async with (
        Standin(play=silent) as engine,
        serving(table([engine], capacity=1)) as served,
        served.wire() as first,
        served.wire() as second,
    ):
        await first.send(chat())
        await engine.arrived.wait()
        await second.send(chat())
        await until(lambda: served.gateway.admission.waiting() == {"tiny": 1})
        reset(second)
        await until(lambda: not served.gateway.admission.waiting())
        assert served.gateway.admission.loads == {"r0": 1}
        reset(first)
        await until(served.idle)


async def test_client_that_only_listens_from_now_on() -> None:
    """It has closed its sending side. Whether it is answered or taken for gone, nothing is left of it."""
    async with Standin(play=hold) as engine, serving(table([engine])) as served, served.wire() as wire:
        await wire.send(chat(stream=True))
        await wire.reader.readuntil(b"\n\n")
        wire.writer.write_eof()
        engine.release.set()
        async with asyncio.timeout(10):
            await wire.reader.read()
        await until(lambda: served.idle() and not served.gateway.clients)


@pytest.mark.parametrize("accepts", [True, False])
async def test_replica_that_takes_a_request_and_is_never_heard_of(accepts: bool) -> None:
    """Half-open: the connection stands, nobody is behind it. Its client can leave, another replica is not held up."""
    with socket.create_server(("127.0.0.1", 0), backlog=5) as deaf, ExitStack() as accepted:
        deaf.setblocking(False)
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        async with serving(table([url], capacity=1)) as served, Standin("good") as good:
            async with served.wire() as wire:
                await wire.send(chat())
                await until(lambda: served.gateway.admission.loads == {"r0": 1})
                if accepts:
                    taken, _ = await asyncio.get_running_loop().sock_accept(deaf)
                    accepted.enter_context(taken)
                served.gateway.use(table([url, good], capacity=1, version=2))
                assert (await served.ask(chat())).json()["choices"][0]["message"]["content"] == "good"
            await until(served.idle)


async def test_replica_that_closes_its_side_in_the_middle() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM)
        writer.write_eof()
        await standin.release.wait()

    async with Standin(play=play) as engine, serving(table([engine])) as served:
        reply = await served.ask(chat(stream=True))
        assert reply.body.startswith(ROLE + content("a")) and b"replica_failed" in reply.body
        await until(served.idle)


async def test_clients_that_send_and_read_one_byte_at_a_time() -> None:
    async def trickle(served: Served) -> bytes:
        async with served.wire() as wire:
            await wire.send(chat("Connection: close", stream=True), one_by_one=True)
            read = b""
            while byte := await wire.reader.read(1):
                read += byte
                await asyncio.sleep(0)
            return read

    async with Standin() as engine, serving(table([engine])) as served:
        answers = await asyncio.gather(*(trickle(served) for _ in range(8)))
        for answer in answers:
            assert answer.endswith(DONE + b"\r\n0\r\n\r\n")
            assert all(content(text) in answer for text in ("one", "two", "three"))


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"1;a=", b"x" * 65536),
        (b"1\r\na\r\n0\r\nX: ", b"y" * 65536),
        (b"1\r\na\r\n0\r\n", b"X: y\r\n" * 10_000),
        (b"0" * 4096, b"0" * 65536),
    ],
    ids=["extension", "trailer", "trailers", "size"],
)
async def test_framing_without_end_is_refused(start: bytes, more: bytes) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving(table()) as served, served.wire() as wire:
        await wire.send(head + start)
        async with asyncio.timeout(10):
            for _ in range(2 * HEAD_LIMIT // len(more) + 1):
                await wire.send(more)
            assert (await wire.reply()).status in (400, 431)


async def test_table_that_names_dead_replicas() -> None:
    async def nonsense(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n")

    async with Standin() as gone:
        pass
    urls = [gone.url, "http://127.0.0.1:1", gone.url, "http://name.invalid:80"]
    async with Standin(play=nonsense) as mail, Standin("alive") as alive:
        async with serving(table([gone.url, mail, alive])) as served:
            replies = await asyncio.gather(*(served.ask(chat()) for _ in range(40)))
            assert {reply.status for reply in replies} <= {
                200,
                502,
            }  # who speaks no HTTP fails more than may be retried
            assert len(alive.asked) == sum(reply.status == 200 for reply in replies) > 0
        async with serving(table([gone.url, "http://127.0.0.1:1", alive])) as served:
            replies = await asyncio.gather(*(served.ask(chat()) for _ in range(40)))
            assert {reply.status for reply in replies} == {200}
        async with serving(table(urls), deadline=0.2) as served:
            replies = await asyncio.gather(*(served.ask(chat()) for _ in range(10)))
            assert {reply.status for reply in replies} <= {502, 503}
            served.gateway.use(table([*urls, alive], version=2))
            for _ in range(20):
                assert (await served.ask(chat())).status in (200, 502, 503)
            served.gateway.use(table([alive], version=3))
            assert (await served.ask(chat())).status == 200


async def test_no_controller_while_traffic_goes_on(tmp_path: Path) -> None:
    """It is cut off in the middle, stays away, and comes back: no request notices, none is reported twice."""
    controller = Controller(tmp_path / "link.sock")
    async with Standin() as engine, serving(table([engine], version=5)) as served:
        linking = asyncio.ensure_future(Link(served.gateway, controller.path, "http://here", sleep=quick).run())
        done: list[int] = []
        stop = asyncio.Event()

        async def client() -> None:
            async with served.wire() as wire:
                while not stop.is_set():
                    await wire.send(chat(stream=True))
                    reply = await wire.reply()
                    done.append(reply.status if reply.complete else 0)

        async def some_more() -> None:
            wanted = len(done) + 100
            await until(lambda: len(done) >= wanted)

        async def connected() -> bool:
            return bool((await served.ask(get("/healthz"))).json()["controller_connected"])

        clients = [asyncio.ensure_future(client()) for _ in range(4)]
        try:
            await controller.start()
            await controller.next("report", lambda line: bool(line["records"]))
            assert await connected()
            await some_more()
            await controller.stop()
            await until(lambda: not served.gateway.connected)
            assert not await connected()
            await some_more()
            await controller.start()
            hello = await controller.next("hello")
            assert hello["version"] == 5
            first = await controller.next("report", lambda line: bool(line["records"]))
            await some_more()
            later = await controller.next("report", lambda line: bool(line["records"]))
            ids = [record["id"] for line in (first, later) for record in line["records"]]
            assert len(ids) == len(set(ids)) and len(first["records"]) >= 50  # what was kept in the meantime
        finally:
            stop.set()
            await asyncio.gather(*clients)
            linking.cancel()
            await asyncio.gather(linking, return_exceptions=True)
            await controller.stop()
        assert set(done) == {200}
        assert (await served.ask(get("/healthz"))).json()["replicas"] == 1
