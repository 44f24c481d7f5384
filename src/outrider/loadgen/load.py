"""How a benchmark drives its targets: closed or open loop, interleaved over rounds."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outrider.loadgen.client import LoadClient
from outrider.loadgen.measurement import Measurement
from outrider.loadgen.traces import Arrival

Tell = Callable[[Measurement], None]
"""Called with each measurement as its request ends."""


@dataclass(frozen=True, slots=True)
class Load:
    """One load that targets are put under.

    Attributes:
        label: what reports call it (``concurrency 4``, ``2 requests/s, poisson``).
        arrivals: the requests in order; their times are ignored in a closed loop.
        concurrency: requests in flight, held constant; None: an open loop, where arrivals wait for nothing.
        rate: mean arrivals a second of an open loop, else None.
    """

    label: str
    arrivals: tuple[Arrival, ...]
    concurrency: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One target under part of a load: what was measured, and the seconds from the first request to the last byte."""

    target: int
    seconds: float
    measurements: tuple[Measurement, ...]


async def drive(clients: Sequence[LoadClient], load: Load, *, rounds: int, tell: Tell, first: int = 0) -> list[Round]:
    """Put every client's target under the load, in turns.

    With several targets the load is cut into ``rounds`` parts and each part goes to every target before the next one
    starts; the order turns round each time, so that a machine that slows down or speeds up favours nobody.
    Requests are numbered from ``first``: a number that an earlier load had would bring its prompt again.
    """
    parts = _parts(load.arrivals, rounds if len(clients) > 1 else 1)
    done: list[Round] = []
    numbers = [itertools.count(first) for _ in clients]
    for index, part in enumerate(parts):
        order = list(clients) if index % 2 == 0 else list(reversed(clients))
        done += [await _round(client, load, part, numbers[client.index], tell) for client in order]
    return done


async def _round(
    client: LoadClient, load: Load, part: Sequence[Arrival], numbers: itertools.count[int], tell: Tell
) -> Round:
    run = _closed if load.concurrency is not None else _open
    origin = time.perf_counter()
    found = await run(client, load, part, numbers, tell, origin)
    return Round(client.index, time.perf_counter() - origin, tuple(found))


async def _closed(
    client: LoadClient,
    load: Load,
    part: Sequence[Arrival],
    numbers: itertools.count[int],
    tell: Tell,
    origin: float,
) -> list[Measurement]:
    waiting = iter(part)
    found: list[Measurement] = []

    async def worker() -> None:
        for arrival in waiting:
            done = await client.send(arrival.shape, next(numbers), messages=arrival.messages, origin=origin)
            found.append(done)
            tell(done)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(load.concurrency or 1, len(part))):
            group.create_task(worker())
    return found


async def _open(
    client: LoadClient,
    load: Load,
    part: Sequence[Arrival],
    numbers: itertools.count[int],
    tell: Tell,
    origin: float,
) -> list[Measurement]:
    found: list[Measurement] = []
    start = part[0].at

    async def one(arrival: Arrival, number: int) -> None:
        due = arrival.at - start
        done = await client.send(arrival.shape, number, messages=arrival.messages, scheduled=due, origin=origin)
        found.append(done)
        tell(done)

    async with asyncio.TaskGroup() as group:
        for arrival in part:
            await asyncio.sleep(max(0.0, arrival.at - start - (time.perf_counter() - origin)))
            group.create_task(one(arrival, next(numbers)))
    return found


def _parts(arrivals: Sequence[Arrival], count: int) -> list[Sequence[Arrival]]:
    """Cut into ``count`` runs of about equal length, none empty."""
    count = max(1, min(count, len(arrivals)))
    bounds = [round(index * len(arrivals) / count) for index in range(count + 1)]
    return [arrivals[low:high] for low, high in itertools.pairwise(bounds)]
