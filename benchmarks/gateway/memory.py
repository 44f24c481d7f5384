"""Whether the gateway's memory stays flat: over many requests, and while many clients read slowly.

    python -m benchmarks.gateway.memory [--requests 1000000] [--readers 1000] [--out FILE]

Resident memory is read after every tenth of the requests. Then readers ask for long streams all at once and read 1 kB a
second each: what the gateway holds for one of them is its growth divided by their number.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import uvloop
from benchmarks.gateway import client, report
from benchmarks.gateway.client import Load
from benchmarks.gateway.peers import KEY, Place, outrider
from benchmarks.gateway.process import Meter, cores, free_port, listening, started
from rich.console import Console
from rich.progress import Progress

RESULTS = Path(__file__).with_name("results") / "memory.json"
_STREAM_CHUNKS = 1_000_000
_READ, _EVERY, _HELD = 1024, 1.0, 30.0
"""Bytes a reader takes, seconds between two times, and seconds until memory is read."""
_STEP = 5.0


def main() -> None:
    """Measure and write the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway.memory")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--readers", type=int, default=1_000)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    console = Console(stderr=True)
    near, far = cores() or (None, None)
    with tempfile.TemporaryDirectory(prefix="outrider-bench-memory-") as name, ExitStack() as stack:
        directory = Path(name)
        place = Place(free_port(), free_port(), (free_port(), free_port()), directory)
        engine = [sys.executable, "-m", "benchmarks.gateway.engine", "--chunks", str(_STREAM_CHUNKS)]
        stack.enter_context(started([*engine, *map(str, place.engines)], directory / "engine.log", core=near))
        controller = [sys.executable, "-m", "benchmarks.gateway.controller", str(directory / "controller.sock")]
        stack.enter_context(started(controller, directory / "controller.log", core=near))
        argv, environment = outrider.command(place)
        gateway = stack.enter_context(started(argv, directory / "gateway.log", core=far, environment=environment))
        listening(gateway, place.port, directory / "gateway.log")
        meter = Meter(gateway.pid)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            result = {
                "machine": report.machine(pinned=near is not None, load_average=os.getloadavg()),
                "requests": runner.run(_requests(options.requests, place.port, meter, console)),
                "readers": runner.run(_readers(options.readers, place.port, meter)),
            }
    report.write(result, options.out)
    print(json.dumps({"requests": result["requests"], "readers": result["readers"]}, indent=1))


async def _requests(wanted: int, port: int, meter: Meter, console: Console) -> list[dict[str, float]]:
    """Resident memory by the number of requests answered: ten readings and one at the start."""
    load = Load("", False, 0, 1_800, 16)
    await client.measure(load, port, KEY, warm_up=0.0, seconds=1.0)
    answered = 0
    found = [{"answered": 0.0, "memory_mb": meter.memory() / 1e6}]
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("requests", total=wanted)
        while answered < wanted:
            answered += (await client.measure(load, port, KEY, warm_up=0.0, seconds=_STEP)).answered
            progress.update(task, completed=answered)
            if answered >= len(found) * wanted / 10:
                found.append({"answered": float(answered), "memory_mb": meter.memory() / 1e6})
    return found


async def _readers(count: int, port: int, meter: Meter) -> dict[str, float]:
    """What the gateway holds while that many clients take a long stream a kilobyte a second."""
    before = meter.memory()
    request = Load("", True, 0, 1_800, 1).request("127.0.0.1", KEY)
    async with asyncio.timeout(120):
        readers = await asyncio.gather(*(_slow(port, request) for _ in range(count)))
        until = asyncio.get_running_loop().time() + _HELD
        while asyncio.get_running_loop().time() < until:
            taken = await asyncio.gather(*(asyncio.get_running_loop().sock_recv(one, _READ) for one in readers))
            assert all(taken), "a stream ended: its reader was to be slow"
            await asyncio.sleep(_EVERY)
    grown = meter.memory() - before
    for one in readers:
        one.close()
    return {"readers": float(count), "grown_mb": grown / 1e6, "kb_a_reader": grown / 1e3 / max(1, count)}


async def _slow(port: int, request: bytes) -> socket.socket:
    """A client with a small receive buffer, its request sent."""
    loop = asyncio.get_running_loop()
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.setblocking(False)
    await loop.sock_connect(reader, ("127.0.0.1", port))
    await loop.sock_sendall(reader, request)
    return reader


if __name__ == "__main__":
    main()
