"""Outrider's gateway beside its peers: CPU, latency and throughput before a stand-in engine.

    python -m benchmarks.gateway [--quick] [--peers outrider smg …] [--rounds N] [--seconds S] [--out FILE]

Every proxy runs on one core, engine and client on the other. All peers are started once; then, round after round, each
load is sent to one after another, in an order that turns with the round. Writes medians over the rounds, with the
smallest and the largest, and ratios between peers (each taken inside a round), to ``results/latest.json``.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import uvloop
from benchmarks.gateway import client, report
from benchmarks.gateway.client import Load
from benchmarks.gateway.peers import KEY, Place, direct, haproxy, litellm, outrider, smg, vllm_router
from benchmarks.gateway.process import Meter, cores, free_port, listening, started
from benchmarks.gateway.report import Round, Rounds
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PEERS: tuple[ModuleType, ...] = (direct, outrider, smg, vllm_router, haproxy, litellm)
RESULTS = Path(__file__).with_name("results") / "latest.json"
SMALL, LARGE = 1_800, 64_000
"""Bytes of a request's body: a chat with a system prompt, and one with documents."""

CONCURRENCY = (1, 16, 64)
OPEN_RATE = 500.0
"""Requests a second of the open loop."""


def loads() -> list[Load]:
    """Everything that is sent. No open loop of paced streams: 32 000 events a second would measure the engine."""
    found = []
    for kind, stream, pace in (("json", False, 0), ("sse", True, 0), ("sse_paced", True, 4)):
        for suffix, size in (("", SMALL), ("_64k", LARGE)):
            found += [Load(f"{kind}{suffix}_c{count}", stream, pace, size, count) for count in CONCURRENCY]
            if not pace:
                found.append(Load(f"{kind}{suffix}_open", stream, pace, size, 0, OPEN_RATE))
    return found


@dataclass(frozen=True, slots=True)
class Running:
    """A peer that can be asked. ``meter`` is None for the direct path."""

    name: str
    port: int
    meter: Meter | None


def main() -> int:
    """Measure, write the result, print the table; returns the exit code."""
    options = _options()
    console = Console(stderr=True)
    chosen = [peer for peer in PEERS if peer.NAME in options.peers]
    skipped = {peer.NAME: f"not installed; {peer.INSTALL}" for peer in chosen if peer.version() is None}
    names = [load for load in loads() if load.name in options.loads] if options.loads else loads()
    before = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="outrider-bench-gateway-") as directory, ExitStack() as stack:
        running = _start(chosen, Path(directory), stack, skipped, console)
        pair = cores()
        if pair is not None:
            os.sched_setaffinity(0, {pair[0]})
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            rounds = runner.run(_measure(running, names, options, console))
    result = report.result(
        rounds,
        versions={peer.NAME: peer.version() for peer in chosen if peer.version()},
        skipped=skipped,
        load_average=before,
        pinned=pair is not None,
        seconds=options.seconds,
    )
    report.write(result, options.out)
    report.show(result, Console())
    console.print(f"Written to {options.out}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=(__doc__ or "").splitlines()[0])
    names = [peer.NAME for peer in PEERS]
    parser.add_argument("--peers", nargs="+", choices=names, default=names, help="who is compared (default: all)")
    parser.add_argument(
        "--loads",
        nargs="+",
        choices=[load.name for load in loads()],
        metavar="LOAD",
        help="what is sent (default: all)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.2, help="seconds a load is measured (default: %(default)s)")
    parser.add_argument("--warm-up", type=float, default=0.3, help="seconds before that (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="one round of 0.3 s: to see that it works")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the result goes (default: %(default)s)")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds, options.warm_up = 1, 0.3, 0.1
    return options


def _start(
    chosen: list[ModuleType], directory: Path, stack: ExitStack, skipped: dict[str, str], console: Console
) -> list[Running]:
    """Engine first, then every peer; one that does not start is skipped with its reason."""
    near, far = cores() or (None, None)
    engines = (free_port(), free_port())
    log = directory / "engine.log"
    command = [sys.executable, "-m", "benchmarks.gateway.engine", *map(str, engines)]
    engine = stack.enter_context(started(command, log, core=near))
    for port in engines:
        listening(engine, port, log)
    running = []
    for peer in chosen:
        if peer.NAME in skipped:
            console.print(f"{peer.NAME}: skipped, {skipped[peer.NAME]}", markup=False)
            continue
        place = Place(free_port(), free_port(), engines, directory / peer.NAME)
        place.directory.mkdir()
        argv, environment = peer.command(place)
        if not argv:
            running.append(Running(peer.NAME, engines[0], None))
            continue
        if peer is outrider:
            controller = [
                sys.executable,
                "-m",
                "benchmarks.gateway.controller",
                str(place.directory / "controller.sock"),
            ]
            stack.enter_context(started(controller, directory / "controller.log", core=near))
        log = directory / f"{peer.NAME}.log"
        console.print(f"{peer.NAME} {peer.version()}: starting")
        process = stack.enter_context(started(argv, log, core=far, environment=environment))
        try:
            listening(process, place.port, log)
            asyncio.run(_answers(place.port))
        except (RuntimeError, TimeoutError) as error:
            skipped[peer.NAME] = f"did not start: {error}"
            console.print(f"{peer.NAME}: skipped, {skipped[peer.NAME]}", markup=False)
            continue
        running.append(Running(peer.NAME, place.port, Meter(process.pid)))
    return running


async def _answers(port: int) -> None:
    """Wait until a peer has found its workers and answers with 200.

    Raises:
        TimeoutError: not within 60 s.
    """
    load = Load("probe", False, 0, SMALL, 1)
    async with asyncio.timeout(60):
        while True:
            result = await client.measure(load, port, KEY, warm_up=0.0, seconds=0.05)
            if result.total and not result.failures:
                return
            await asyncio.sleep(0.2)


async def _measure(running: list[Running], names: list[Load], options: argparse.Namespace, console: Console) -> Rounds:
    rounds: Rounds = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=options.rounds * len(names) * len(running))
        for number in range(options.rounds):
            for load in names:
                for turn in range(len(running)):
                    peer = running[(turn + number) % len(running)]
                    progress.update(task, description=f"round {number + 1}: {load.name} {peer.name}")
                    rounds.setdefault((peer.name, load.name), []).append(await _one(peer, load, options))
                    progress.advance(task)
    return rounds


async def _one(peer: Running, load: Load, options: argparse.Namespace) -> Round:
    """One load against one peer. CPU is counted over the whole of it, warm-up and end included, as requests are."""
    before = peer.meter.cpu() if peer.meter else 0.0
    result = await client.measure(load, peer.port, KEY, warm_up=options.warm_up, seconds=options.seconds)
    cpu = peer.meter.cpu() - before if peer.meter else 0.0
    return report.summarise(result, cpu, peer.meter.memory() if peer.meter else 0)


if __name__ == "__main__":
    sys.exit(main())
