"""The link to the controller, over real Unix sockets."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from outrider.control.link import GatewayLink
from outrider.gateway.link import Link
from outrider.gateway.table import load
from outrider.metrics.record import from_dict
from tests.gateway.client import Served, chat, serving, table, until
from tests.gateway.standin import Standin


class Controller:
    """A controller's socket that shows what came, line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.writer: asyncio.StreamWriter | None = None
        self.server: asyncio.Server | None = None

    async def start(self) -> None:
        self.server = await asyncio.start_unix_server(self._serve, str(self.path))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        with suppress(ConnectionError):
            while line := await reader.readline():
                await self.lines.put(json.loads(line))
        writer.close()

    async def next(self, kind: str, wanted: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
        async with asyncio.timeout(10):
            while True:
                line = await self.lines.get()
                if line["type"] == kind and wanted(line):
                    return line

    def send(self, data: bytes) -> None:
        assert self.writer is not None
        self.writer.write(data + b"\n")

    async def stop(self) -> None:
        assert self.server is not None
        self.server.close()
        if self.writer is not None:
            self.writer.transport.abort()
        self.path.unlink(missing_ok=True)


async def quick(_: float) -> None:
    """Reports and redials as fast as the loop turns, a little apart."""
    await asyncio.sleep(0.002)


@asynccontextmanager
async def linked(served: Served, path: Path) -> AsyncIterator[Link]:
    link = Link(served.gateway, path, "http://127.0.0.1:8080", sleep=quick)
    served.gateway.wake = link.wake
    running = asyncio.ensure_future(link.run())
    try:
        yield link
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_hello_reports_wake_and_tables(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    await controller.start()
    saved = tmp_path / "table.json"
    async with Standin() as engine, serving(table(), table_file=saved) as served, linked(served, controller.path):
        hello = await controller.next("hello")
        assert hello == {
            "type": "hello",
            "epoch": "e1",
            "version": 1,
            "pid": os.getpid(),
            "url": "http://127.0.0.1:8080",
        }
        asking = asyncio.ensure_future(served.ask(chat()))
        assert (await controller.next("wake"))["endpoint"] == "tiny"
        assert await controller.next("report", lambda line: line["waiting"] == {"tiny": 1})
        controller.send(json.dumps({"type": "table", "table": table([engine], version=2)}).encode())
        assert (await asking).status == 200
        report = await controller.next("report", lambda line: bool(line["records"]))
        assert report["replicas"] == {"r0": {"in_flight": 0, "prompt_tokens": 7, "completion_tokens": 3}}
        record = from_dict(report["records"][0])
        assert (record.endpoint, record.replica, record.prompt_tokens) == ("tiny", "r0", 7)
        assert not served.gateway.numbers.records
        assert load(saved).version == 2
        assert served.gateway.connected
    await controller.stop()


async def test_bad_tables_change_nothing(tmp_path: Path) -> None:
    controller = Controller(tmp_path / "c.sock")
    await controller.start()
    async with serving(table(version=5)) as served, linked(served, controller.path):
        await controller.next("hello")
        controller.send(b'{"type": "table", "table": {"version": 6}}')
        controller.send(b'{"type": "later"}')
        controller.send(b"not json")
        await controller.next("hello")  # it hung up and dialled again
        assert served.gateway.table.version == 5
    await controller.stop()


async def test_controller_away_and_back(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    async with Standin() as engine, serving(table([engine])) as served, linked(served, path):
        assert (await served.ask(chat())).status == 200
        assert not served.gateway.connected
        for _ in range(2):
            controller = Controller(path)
            await controller.start()
            await controller.next("hello")
            assert (await served.ask(chat())).status == 200
            await controller.next("report", lambda line: bool(line["records"]))
            await controller.stop()
            await until(lambda: not served.gateway.connected)
            assert (await served.ask(chat())).status == 200


async def test_waiting_requests_wake_a_controller_that_comes_late(tmp_path: Path) -> None:
    async with serving(table()) as served, linked(served, tmp_path / "c.sock"):
        asking = asyncio.ensure_future(served.ask(chat()))
        await until(lambda: served.gateway.admission.waiting())
        controller = Controller(tmp_path / "c.sock")
        await controller.start()
        assert (await controller.next("wake"))["endpoint"] == "tiny"
        controller.send(json.dumps({"type": "table", "table": table(version=2, state="failed")}).encode())
        assert (await asking).status == 503
        await controller.stop()


async def test_with_the_controllers_own_end(tmp_path: Path) -> None:
    woken: list[str] = []
    end = GatewayLink(tmp_path / "c.sock", on_wake=woken.append)
    await end.start()
    release = asyncio.Event()

    async def play(standin: Standin, asked: Any, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async with Standin(play=play) as engine, serving() as served, linked(served, tmp_path / "c.sock"):
        end.publish(table())
        await until(lambda: served.gateway.table.version == 1)
        asking = asyncio.ensure_future(served.ask(chat()))
        await until(lambda: woken == ["tiny"])
        end.publish(table([engine], version=2))
        await until(lambda: end.in_flight("r0") == 1)
        assert [hello["pid"] for hello in end.gateways()] == [os.getpid()]
        release.set()
        assert (await asking).status == 200
        await until(lambda: end.in_flight("r0") == 0)
    await end.close()
