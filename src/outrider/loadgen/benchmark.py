"""A whole benchmark: look the targets up, fit the traffic to them, warm up, measure, report."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvloop

from outrider.errors import InvalidInput
from outrider.loadgen.arrivals import Arrivals, arrivals, constant
from outrider.loadgen.client import LoadClient
from outrider.loadgen.load import Load, Round, Tell, drive
from outrider.loadgen.profiles import Profile, Shape
from outrider.loadgen.prompts import Calibration
from outrider.loadgen.report import ratios, summary
from outrider.loadgen.target import Target
from outrider.loadgen.traces import Arrival


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do.

    Attributes:
        targets: one, or two to compare (the first is divided by the second).
        profile: lengths of the requests; None: the trace's.
        trace: requests with their times, instead of a profile.
        concurrencies: closed loops to run, one after another.
        rates: open loops to run, requests a second each.
        arrival: how an open loop's requests come.
        requests: how many a load and target; a closed loop sends no fewer than four for each in flight.
        rounds: in how many turns two targets share a load.
        warm_up: requests before the first measurement, for each target; not counted.
        seed: of lengths, arrivals and prompts.
        timeout: seconds for one request.
        ignore_eos: ask for answers of exactly the wanted length.
        body: further fields of each request.
    """

    targets: tuple[Target, ...]
    profile: Profile | None
    seed: int
    trace: tuple[Arrival, ...] = ()
    concurrencies: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    arrival: Arrivals = "poisson"
    requests: int = 50
    rounds: int = 5
    warm_up: int = 2
    timeout: float = 600.0
    ignore_eos: bool = True
    body: dict[str, Any] = field(default_factory=dict)

    @property
    def context(self) -> int | None:
        """What the smallest context among the targets holds; None: no target says."""
        return min((target.context for target in self.targets if target.context), default=None)

    def loads(self) -> list[Load]:
        """The loads, in order, each with its requests.

        Raises:
            InvalidInput: a trace has requests that the context cannot hold.
        """
        if self.profile is None:
            return [self._replayed()]
        made = []
        for concurrency in self.concurrencies:
            count = max(self.requests, 4 * concurrency)
            made.append(Load(f"concurrency {concurrency}", self._arrivals(constant(1.0), count), concurrency))
        for rate in self.rates:
            times = arrivals(self.arrival, rate, random.Random(f"{self.seed}/arrivals/{rate}"))
            made.append(Load(f"{rate:g} requests/s, {self.arrival}", self._arrivals(times, self.requests), rate=rate))
        return made

    def _arrivals(self, times: Iterator[float], count: int) -> tuple[Arrival, ...]:
        if self.profile is None:
            return ()
        shapes = self.profile.fitted(self.context).shapes(random.Random(f"{self.seed}/shapes"))
        return tuple(Arrival(at, shape) for at, shape in itertools.islice(zip(times, shapes, strict=False), count))

    def _replayed(self) -> Load:
        # How long messages are is known to the server alone: it refuses those that are too long.
        shapes = [arrival.shape for arrival in self.trace if arrival.messages is None]
        longest = max((shape.input_tokens + shape.output_tokens for shape in shapes), default=0)
        if self.context is not None and longest > self.context:
            raise InvalidInput(
                f"The trace has requests of {longest} tokens",
                why=f"the model's context holds {self.context}",
                remedy="Use a trace that fits it, or a model with a longer context.",
            )
        seconds = self.trace[-1].at - self.trace[0].at
        if self.concurrencies:
            return Load(f"concurrency {self.concurrencies[0]}, trace", self.trace, self.concurrencies[0])
        rate = (len(self.trace) - 1) / seconds if seconds > 0 else None
        return Load("trace", self.trace, rate=rate)


@dataclass(slots=True)
class Progress:
    """What a benchmark tells while it runs; each is called with plain words or a measurement.

    Attributes:
        stage: a line on what begins.
        load: a load begins, with the number of requests that it sends to all targets.
        measured: a request of a load ended.
    """

    stage: Callable[[str], None]
    load: Callable[[Load, int], None]
    measured: Tell


@dataclass(slots=True)
class Result:
    """Everything measured. ``interrupted``: somebody ended it early, and what there is is here."""

    plan: Plan
    calibrations: list[Calibration | None] = field(default_factory=list)
    runs: list[tuple[Load, list[Round]]] = field(default_factory=list)
    interrupted: bool = False

    def as_dict(self) -> dict[str, Any]:
        """JSON: ``targets, workload, rows, ratios, requests``. Durations are seconds."""
        labels = [target.label for target in self.plan.targets]
        rows, compared, requests = [], {}, []
        for load, rounds in self.runs:
            for index, label in enumerate(labels):
                mine = [one for one in rounds if one.target == index]
                if mine:
                    rows.append(summary(load, mine, label=label))
            if len(labels) == 2 and {one.target for one in rounds} == {0, 1}:
                compared[load.label] = ratios(load, rounds, labels=labels, seed=self.plan.seed)
            requests += [one.as_dict() | {"load": load.label} for each in rounds for one in each.measurements]
        targets = [{"label": t.label, "url": t.url, "model": t.model, "context": t.context} for t in self.plan.targets]
        return {
            "targets": targets,
            "workload": self._workload(),
            "rounds": self.plan.rounds if len(labels) == 2 else 1,
            "seed": self.plan.seed,
            "interrupted": self.interrupted,
            "rows": rows,
            "ratios": compared,
            "requests": requests,
        }

    def _workload(self) -> dict[str, Any]:
        profile = self.plan.profile
        if profile is None:
            return {"trace_requests": len(self.plan.trace)}
        fitted = profile.fitted(self.plan.context)
        shape: Shape = fitted.typical
        return {
            "profile": profile.name,
            "input_tokens": shape.input_tokens,
            "shared_prefix_tokens": shape.shared_prefix_tokens,
            "output_tokens": shape.output_tokens,
            "spread": fitted.spread,
            "scale": round(fitted.scale, 4),
            "context": self.plan.context,
        }


def run(plan: Plan, progress: Progress) -> Result:
    """Run a benchmark to its end. Ctrl-C ends it early: the loads finished by then are in the result.

    Raises:
        Unavailable: a target refuses even the calibration.
        InvalidInput: the traffic cannot be made for these targets.
    """
    loads = plan.loads()
    result = Result(plan)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_run(plan, loads, progress, result))
        except KeyboardInterrupt:
            if not result.runs:
                raise
            result.interrupted = True
    return result


async def _run(plan: Plan, loads: Sequence[Load], progress: Progress, result: Result) -> None:
    clients = [
        LoadClient(target, index=index, salt=str(plan.seed), timeout=plan.timeout, body=plan.body,
                   ignore_eos=plan.ignore_eos)
        for index, target in enumerate(plan.targets)
    ]  # fmt: skip
    try:
        for client in clients:
            progress.stage(f"counting the tokens of a word at {client.target.label}")
            result.calibrations.append(await client.calibrate())
            for number in range(plan.warm_up):
                progress.stage(f"warm-up request {number + 1} of {plan.warm_up} to {client.target.label}")
                await client.send(loads[0].arrivals[0].shape, -1_000 - number)
        first = 0
        for load in loads:
            progress.load(load, len(load.arrivals) * len(clients))
            rounds = await drive(clients, load, rounds=plan.rounds, tell=progress.measured, first=first)
            result.runs.append((load, rounds))
            first += len(load.arrivals)
    finally:
        for client in clients:
            await client.close()
