"""The process: starts, serves, stops when told, and says in one line why it cannot start."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from outrider.gateway.__main__ import main
from tests.gateway.client import Served, chat, get, serving, table
from tests.gateway.standin import Asked, Standin


@asynccontextmanager
async def started(*arguments: str, port: int = 0) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """A gateway process and its port; ended by force if the test has not ended it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outrider.gateway", "--port", str(port), *arguments, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(20):
            line = (await process.stderr.readline()).decode()
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+), table version 1", line)
        assert found, line
        yield process, int(found[1])
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await process.stderr.read()  # to its end: workers, where it had any, are gone then, too


async def test_serves_the_saved_table_and_finishes_on_sigterm(tmp_path: Path) -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        await standin.release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    saved = tmp_path / "table.json"
    async with Standin(play=play) as engine, serving() as stand:
        saved.write_text(json.dumps(table([engine])))
        arguments = ("--table", str(saved), "--controller", str(tmp_path / "nobody.sock"))
        async with started(*arguments) as (process, port):
            served = Served(stand.gateway, port)
            assert (await served.ask(get("/healthz"))).json()["controller_connected"] is False
            asking = asyncio.ensure_future(served.ask(chat()))
            await engine.arrived.wait()
            process.send_signal(signal.SIGTERM)
            while True:
                try:
                    await served.ask(get("/healthz"))
                except (ConnectionError, asyncio.IncompleteReadError):
                    break
            assert process.returncode is None
            engine.release.set()
            assert (await asking).status == 200
            async with asyncio.timeout(20):
                assert await process.wait() == 0
            assert process.stderr is not None
            assert await process.stderr.read() == b""


async def test_a_new_process_takes_over_and_no_request_is_lost(tmp_path: Path) -> None:
    """While one process follows another, a slow request, a busy connection and new ones all get their answers."""

    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if b"slow" in asked.body:
            await standin.release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async def keep_asking() -> int:
        count = 0
        while not over.is_set():
            assert (await served.ask(chat())).status == 200
            count += 1
        return count

    async def keep_one_connection_busy() -> int:
        count = 0
        async with served.wire() as wire:
            while True:
                await wire.send(chat())
                reply = await wire.reply()
                assert reply.status == 200
                count += 1
                if reply.headers.get("connection") == "close":
                    return count

    saved = tmp_path / "table.json"
    over = asyncio.Event()
    async with Standin(play=play) as engine, serving() as stand:
        saved.write_text(json.dumps(table([engine])))
        async with started("--table", str(saved)) as (old, port):
            served = Served(stand.gateway, port)
            slow = asyncio.ensure_future(served.ask(chat(messages=[{"role": "user", "content": "slow"}])))
            await engine.arrived.wait()
            busy = [asyncio.ensure_future(keep_asking()) for _ in range(4)]
            kept = asyncio.ensure_future(keep_one_connection_busy())
            async with started("--table", str(saved), "--replace", str(old.pid), port=port):
                async with asyncio.timeout(20):
                    assert await kept > 0  # the old process said that it closes, and then did
                    assert old.returncode is None
                    engine.release.set()
                    assert (await slow).status == 200
                    assert await old.wait() == 0
                over.set()
                assert sum(await asyncio.gather(*busy)) > 0
                assert (await served.ask(get("/healthz"))).status == 200


async def test_only_who_is_told_to_shares_a_port(tmp_path: Path) -> None:
    async with serving() as first:
        command = (sys.executable, "-m", "outrider.gateway", "--port", str(first.port))
        second = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
        _, said = await second.communicate()
        assert second.returncode == 7
        assert b"another process listens there" in said


def test_port_taken_is_one_line_and_exit_code_7() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "outrider.gateway", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 7
    [line] = done.stderr.splitlines()
    assert port in line and "another process listens there" in line


def test_bad_option_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--port", "x"])
    assert caught.value.code == 2
    assert "--port" in capsys.readouterr().err


def test_nothing_heavy_is_imported() -> None:
    heavy = ("pydantic", "sqlalchemy", "fastapi", "outrider.app", "outrider.store")
    code = f"import sys, outrider.gateway.__main__; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.strip() == "[]"
