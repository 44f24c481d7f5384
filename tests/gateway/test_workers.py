"""Several workers on one port: they share the bound of a replica, are replaced when they die, end with their parent."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

import psutil

from tests.gateway.client import Served, chat, get, serving, table, until
from tests.gateway.standin import Asked, Standin
from tests.gateway.test_process import started

WORKERS = 2


def gone(pids: list[int]) -> bool:
    return not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids)


async def test_the_bound_of_a_replica_holds_over_workers(tmp_path: Path) -> None:
    capacity, requests = 3, 24
    inside = most = 0

    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.005)  # how long an answer takes, not a wait for something
        inside -= 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    saved = tmp_path / "table.json"
    async with Standin(play=play) as engine, serving() as stand:
        saved.write_text(json.dumps(table([engine], capacity=capacity)))
        async with started("--table", str(saved), "--workers", str(WORKERS)) as (_, port):
            served = Served(stand.gateway, port)
            replies = await asyncio.gather(*(served.ask(chat()) for _ in range(requests)))
    assert [reply.status for reply in replies] == [200] * requests
    assert capacity <= most < capacity + WORKERS


async def test_a_worker_that_dies_is_replaced_and_its_count_forgotten(tmp_path: Path) -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if not standin.release.is_set():
            await standin.release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    saved = tmp_path / "table.json"
    async with Standin(play=play) as engine, serving() as stand:
        saved.write_text(json.dumps(table([engine], capacity=1)))
        async with started("--table", str(saved), "--workers", str(WORKERS)) as (parent, port):
            served = Served(stand.gateway, port)
            before = psutil.Process(parent.pid).children()
            lost = asyncio.ensure_future(served.ask(chat()))
            await engine.arrived.wait()
            for worker in before:  # the one that counts the request among them
                worker.kill()
            await asyncio.wait([lost])
            assert isinstance(lost.exception(), (ConnectionError, asyncio.IncompleteReadError))
            engine.release.set()
            async with asyncio.timeout(20):
                while True:
                    try:
                        assert (await served.ask(chat())).status == 200  # the only place is free again
                        break
                    except (ConnectionError, asyncio.IncompleteReadError):
                        await asyncio.sleep(0.02)
            await until(lambda: len(psutil.Process(parent.pid).children()) == WORKERS)
            after = [worker.pid for worker in psutil.Process(parent.pid).children()]
            assert not set(after) & {worker.pid for worker in before}
            parent.send_signal(signal.SIGTERM)
            async with asyncio.timeout(20):
                assert await parent.wait() == 0
            await until(lambda: gone(after))


async def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    saved = tmp_path / "table.json"
    saved.write_text(json.dumps(table(["http://127.0.0.1:9"])))
    async with started("--table", str(saved), "--workers", str(WORKERS)) as (parent, _):
        workers = [worker.pid for worker in psutil.Process(parent.pid).children()]
        assert workers
        parent.kill()
        await parent.wait()
        await until(lambda: gone(workers))


async def test_the_numbers_are_those_of_all_workers(tmp_path: Path) -> None:
    saved = tmp_path / "table.json"
    async with Standin() as engine, serving() as stand:
        saved.write_text(json.dumps(table([engine])))
        async with started("--table", str(saved), "--workers", str(WORKERS)) as (parent, port):
            served = Served(stand.gateway, port)
            requests = 0
            while len(engine.asked) < 20 or engine.connections < WORKERS:
                assert (await served.ask(chat())).status == 200
                requests += 1
            for _ in range(6):
                text = (await served.ask(get("/metrics"))).body.decode()
                line = 'outrider_request_e2e_seconds_count{endpoint="tiny",revision="2",replica="r0"}'
                assert f"{line} {requests}\n" in text
                assert "outrider_gateway_table_version 1\n" in text
            parent.send_signal(signal.SIGHUP)  # without TLS there is nothing to read again
            assert (await served.ask(chat())).status == 200
