"""The loads of trials: which requests, how fast, how many. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from outrider.loadgen.load import Load
from outrider.loadgen.traces import Arrival
from outrider.tuning.trial import Loaded
from outrider.tuning.workload import Prompts, Traffic

SHARE = 0.9
"""Of the rate at which the present configuration holds the workload's concurrency: at all of it, a queue that a moment
made never goes away."""
_REQUESTS = 8
"""Of a trial at least: with two turns, sixteen pairs to compare."""


def least(concurrency: int) -> int:
    """Requests of a trial at least, all kinds together: each place in flight is taken twice."""
    return max(_REQUESTS, 2 * concurrency)


def levels(concurrency: int) -> list[int]:
    """Concurrencies of a curve: 1, 2, 4 … and the workload's own."""
    return sorted(
        {*(1 << power for power in range(concurrency.bit_length()) if 1 << power <= concurrency), concurrency}
    )


def first_look(traffic: Traffic, counts: Mapping[str, int], prompts: Prompts) -> list[Load]:
    """The workload as the present configuration meets it first: closed loops at its concurrency, or a trace's times."""
    found = []
    for kind in traffic.kinds:
        requests = tuple(kind.requests(counts[kind.name], prompts))
        if traffic.replayed and kind.timed:
            found.append(_replayed(kind.name, requests))
        else:
            found.append(Load(kind.name, requests, concurrency=traffic.concurrency))
    return found


def seen(traffic: Traffic, looks: Sequence[Loaded]) -> Traffic:
    """The traffic with the concurrency that a replayed trace turned out to have."""
    if not traffic.replayed:
        return traffic
    flying = statistics.fmean(look.in_flight for look in looks)
    return replace(traffic, concurrency=max(1, round(flying)))


def rates(traffic: Traffic, looks: Sequence[Loaded]) -> dict[str, float]:
    """Requests a second of each kind's open loop: as said, as the trace has it, or what holds the concurrency.

    By Little's law a server whose requests take ``e2e`` seconds with ``n`` of them in flight answers ``n ÷ e2e`` a
    second.
    """
    found = {}
    for look in looks:
        pace = statistics.fmean(sample.e2e for sample in look.samples)
        held = traffic.concurrency / pace
        found[look.kind] = traffic.rate or look.rate or SHARE * held
    return found


def open_loops(traffic: Traffic, per_second: Mapping[str, float], requests: int, prompts: Prompts) -> list[Load]:
    """An open loop of each kind: a trace's own times, or evenly spaced, so that few requests suffice."""
    found, counts = [], traffic.counts(requests)
    for kind in traffic.kinds:
        chosen = tuple(kind.requests(counts[kind.name], prompts))
        rate = per_second[kind.name]
        if traffic.replayed and kind.timed:
            found.append(_replayed(kind.name, chosen))
        else:
            spaced = tuple(one._replace(at=number / rate) for number, one in enumerate(chosen))
            found.append(Load(kind.name, spaced, rate=rate))
    return found


def curve(traffic: Traffic, prompts: Prompts) -> list[Load]:
    """Closed loops of each kind at each concurrency, the workload's own first; no request comes twice if it can be."""
    found: list[Load] = []
    skip: dict[str, int] = {}
    for level in reversed(levels(traffic.concurrency)):
        for kind in traffic.kinds:
            count = traffic.counts(max(4, 2 * level))[kind.name]
            begin = skip.get(kind.name, 0)
            requests = tuple(kind.requests(count, prompts, skip=begin))
            skip[kind.name] = begin + count
            found.append(Load(kind.name, requests, concurrency=level))
    return found


def seconds(wanted: Sequence[Load], pace: Mapping[str, float]) -> float:
    """How long loads take at most, where a request takes ``pace`` seconds, by kind."""
    whole = 0.0
    for load in wanted:
        each = pace.get(load.label, 0.0)
        if load.concurrency is not None:
            whole += math.ceil(len(load.arrivals) / load.concurrency) * each
        else:
            whole += load.arrivals[-1].at - load.arrivals[0].at + each
    return whole


def _replayed(name: str, requests: tuple[Arrival, ...]) -> Load:
    span = requests[-1].at - requests[0].at
    return Load(name, requests, rate=(len(requests) - 1) / span if span > 0 else None)
