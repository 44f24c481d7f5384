"""A world without engines: a clock that trials move, and replicas whose speed is a function of their setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from outrider.loadgen.load import Load
from outrider.recipes.library import load_catalog
from outrider.recipes.planner import plan
from outrider.spec.endpoint import parse
from outrider.spec.inventory import Inventory
from outrider.spec.objective import Objective
from outrider.tuning.comparing import Comparison
from outrider.tuning.settings import STAGES, Setting, Stage
from outrider.tuning.trial import Loaded, Outcome, Sample, Trial
from outrider.tuning.tuner import Job
from outrider.tuning.workload import read_workload

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
MACHINE = Inventory(
    cores=4, memory_bytes=32 * 2**30, disk_free_bytes=2**40, engines={"llamacpp": "2026.10.11549"}, cpu_model="a CPU"
)
START = 5.0
"""Seconds that a replica takes to start and to end."""


class FakeClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class FakeBench:
    """Answers each request in ``pace(setting, concurrency)`` seconds a token, and moves the clock by what that takes.

    Args:
        tau: acceptance length of a setting; None: nothing drafts.
        broken: label of a setting → why it loses.
    """

    def __init__(
        self,
        clock: FakeClock,
        pace: Callable[[Setting, int], float],
        *,
        tau: Callable[[Setting], float | None] = lambda setting: None,
        broken: dict[str, str] | None = None,
    ) -> None:
        self.clock, self.pace, self.tau, self.broken = clock, pace, tau, broken or {}
        self.asked: list[tuple[Setting, tuple[Load, ...]]] = []

    def run(self, setting: Setting, loads: Sequence[Load], limit: float) -> Outcome:
        """Every trial ends, or is cut off when its limit is reached."""
        self.asked.append((setting, tuple(loads)))
        began = self.clock.now
        if why := self.broken.get(setting.label):
            self.clock.now += min(limit, START)
            return Outcome(failure=why)
        self.clock.now += START
        done: list[Loaded] = []
        for load in loads:
            one = self._loaded(setting, load)
            self.clock.now += one.seconds
            if self.clock.now - began > limit:
                self.clock.now = began + limit
                return Outcome(tuple(done), None, True, START)
            done.append(one)
        return Outcome(tuple(done), None, False, START)

    def _loaded(self, setting: Setting, load: Load) -> Loaded:
        at_once = load.concurrency or 2
        samples = []
        for number, arrival in enumerate(load.arrivals):
            tokens = arrival.shape.output_tokens
            itl = self.pace(setting, at_once)
            samples.append(Sample(number, itl, itl, itl * tokens * (1 + number % 3 / 10), tokens))
        e2e = sum(sample.e2e for sample in samples)
        seconds = e2e / at_once if load.concurrency else load.arrivals[-1].at + samples[-1].e2e
        rate = sum(sample.tokens for sample in samples) / seconds
        return Loaded(
            load.label, load.concurrency, load.rate, seconds, tuple(samples), self.tau(setting), rate, 3 * rate
        )


class Quiet:
    """Progress that nobody looks at; keeps the trials."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []

    def begins(self, stage: str, setting: Setting, rung: int, turn: int) -> None:
        """Nothing."""

    def ended(self, trial: Trial) -> None:
        """Kept."""
        self.trials.append(trial)

    def best(self, setting: Setting, comparison: Comparison | None) -> None:
        """Nothing."""


def job(
    *,
    budget: float = 3600.0,
    stages: tuple[Stage, ...] = STAGES,
    methods: tuple[str, ...] | None = None,
    workload: str = "chat",
    concurrency: int | None = 4,
    objective: Objective | None = None,
    **spec: Any,
) -> Job:
    """A job for an endpoint of SmolLM2 on llama.cpp, unless the spec says otherwise."""
    catalog = load_catalog([])
    made = plan(parse({"model": MODEL, "name": "mine", **spec}), MACHINE, catalog)
    return Job(
        plan=made,
        recipe=catalog.get(made.recipe),
        traffic=read_workload(workload, concurrency=concurrency, usual=1),
        objective=objective or Objective(),
        budget=budget,
        seed=7,
        cores=MACHINE.cores,
        context=8192,
        stages=stages,
        methods=methods,
    )
