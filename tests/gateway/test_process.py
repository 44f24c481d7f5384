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
async def started(*arguments: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """A gateway process and its port; ended by force if the test has not ended it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "outrider.gateway", "--port", "0", *arguments, stderr=asyncio.subprocess.PIPE
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
