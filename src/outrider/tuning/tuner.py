"""The tuner: a first look at what stands, a search by stages, a confirmation, and curves over concurrency.

Trials are made by a :class:`~outrider.tuning.trial.Bench`, time comes from a clock: with fakes of both this is tested
without an engine. The budget is kept: a trial that would pass it is not begun, and what is left undone is said.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from outrider.errors import BudgetTooSmall, ReplicaFailed
from outrider.loadgen.load import Load
from outrider.recipes.plan import Plan
from outrider.recipes.schema import Recipe
from outrider.spec.objective import Objective
from outrider.tuning import comparing, loads, search
from outrider.tuning.comparing import Comparison
from outrider.tuning.search import Rung
from outrider.tuning.settings import Setting, Stage, candidates, present
from outrider.tuning.trial import Bench, Outcome, Trial
from outrider.tuning.workload import Prompts, Traffic

_PATIENCE = 4.0
"""A trial that takes this many times what the present configuration took is ended, and its setting loses."""
_WEIGHTS = {"threads": 2.0, "speculation": 5.0, "batch_size": 2.0, "slots": 2.0, "confirmation": 2.0}
"""How the time of the search is divided; what a stage leaves goes on to the next."""
_SEARCHED = 0.65
"""Of the budget for the search at most; the rest is for the curves."""
_ENDING = 1.0
"""Seconds kept for ending the last replica by force."""
_LONGER = 4
"""Times as many requests as needed that a trial sends at most, where its replica takes long to start."""
FIRST_LOOK, CONFIRMATION, CURVE = "first look", "confirmation", "curve"


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be tuned, and how.

    Attributes:
        plan, recipe: of the endpoint as it stands.
        traffic: what it is measured with.
        objective: of the endpoint; a setting that breaks it does not win over one that keeps it.
        budget: seconds.
        seed: of prompts and of confidence intervals.
        cores: that this process may use.
        context: tokens that a request may hold; None: not known.
        stages: what is varied.
        methods: of speculation; None: all there are.
        trained: drafter → tokens that it was trained to draft, of those whose files are here.
    """

    plan: Plan
    recipe: Recipe
    traffic: Traffic
    objective: Objective
    budget: float
    seed: int
    cores: int
    context: int | None
    stages: tuple[Stage, ...]
    methods: tuple[str, ...] | None = None
    trained: Mapping[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Tuning:
    """What came out.

    Attributes:
        traffic: with the concurrency that was measured at.
        rates: kind of traffic → requests a second of the open loops.
        trials: all, in their order.
        comparisons: of each stage, the setting that stood with the best other; before it, where that one drafts, plain
            decoding with the best other way to draft.
        present, best: settings; the same where nothing better was found.
        unfinished: what the budget did not suffice for, a line each.
        seconds: it took.
    """

    job: Job
    traffic: Traffic
    present: Setting
    best: Setting
    rates: dict[str, float] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def improved(self) -> bool:
        """Something better than the present configuration was found."""
        return self.best != self.present

    @property
    def verdict(self) -> Comparison | None:
        """The comparison of the present configuration with the best; None: none was made with just these two."""
        found = [c for c in self.comparisons if c.stands == self.present and c.other == self.best]
        return found[-1] if found else None


class Progress(Protocol):
    """Is told how far a tuner is."""

    def begins(self, stage: str, setting: Setting, rung: int, turn: int) -> None:
        """A trial begins."""
        ...

    def ended(self, trial: Trial) -> None:
        """It ended."""
        ...

    def best(self, setting: Setting, comparison: Comparison | None) -> None:
        """The best so far, and the comparison that made it so."""
        ...


class Tuner:
    """Tunes one endpoint, once.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, job: Job, bench: Bench, progress: Progress, *, clock: Callable[[], float]) -> None:
        self._job = job
        self._bench = bench
        self._progress = progress
        self._clock = clock
        self._began = clock()
        self._end = self._began + max(0.0, job.budget - _ENDING)
        stands = present(job.plan)
        self._found = Tuning(job, job.traffic, stands, stands)
        self._prompts = Prompts(job.seed, job.context)
        self._overhead = 0.0
        self._pace: dict[str, float] = {}
        self._proven: Setting | None = None
        """What was best before a stage picked one of several without its last round; None: no stage did."""

    def run(self) -> Tuning:
        """Search until the budget is spent or nothing is left to try.

        Raises:
            BudgetTooSmall: not even the present configuration was measured within it.
            ReplicaFailed: the present configuration does not start, or fails a request.
            NoDrafter, InvalidInput: a method of speculation that cannot be tried.
        """
        found = self._found
        planned = {stage: self._candidates(stage) for stage in self._job.stages}  # refused before anything starts
        self._first_look()
        left = [stage for stage in self._job.stages if len(planned[stage]) > 1]
        while left:
            stage = left.pop(0)
            self._search(stage, self._candidates(stage), self._deadline(stage, [*left, CONFIRMATION]))
        won = {one.stage for one in found.comparisons if one.won}
        if len(won) > 1 or self._proven is not None:
            self._confirm()
        self._curves(self._candidates("speculation") if "speculation" in self._job.stages else [])
        found.seconds = self._clock() - self._began
        return found

    def _candidates(self, stage: Stage) -> list[Setting]:
        job = self._job
        return candidates(
            stage,
            self._found.best,
            plan=job.plan,
            recipe=job.recipe,
            cores=job.cores,
            concurrency=self._found.traffic.concurrency,
            methods=job.methods,
            trained=job.trained,
        )

    def _first_look(self) -> None:
        """The present configuration at the workload's concurrency: how fast requests may come, how long a trial is."""
        found, traffic = self._found, self._job.traffic
        counts = traffic.counts(loads.least(traffic.concurrency))
        seen = self._trial(FIRST_LOOK, found.present, 0, 0, loads.first_look(self._job.traffic, counts, self._prompts))
        if seen.outcome.cut:
            raise BudgetTooSmall(
                "The budget ended before the first trial",
                why=f"{self._job.budget:.0f} s do not suffice to start one replica and to send it"
                f" {sum(counts.values())} requests",
            )
        if seen.outcome.failure is not None:
            raise ReplicaFailed(
                "The present configuration fails, so nothing can be compared with it",
                why=seen.outcome.failure,
                remedy=f"Mend it first; see: outrider endpoint logs {self._job.plan.endpoint}",
            )
        found.traffic = loads.seen(traffic, seen.outcome.loads)
        found.rates = loads.rates(found.traffic, seen.outcome.loads)
        self._pace = {load.kind: statistics.fmean(sample.e2e for sample in load.samples) for load in seen.outcome.loads}
        self._overhead = max(0.0, seen.seconds - sum(load.seconds for load in seen.outcome.loads))
        self._progress.best(found.best, None)

    def _deadline(self, stage: str, later: Sequence[str]) -> float:
        """When a stage has to end so that the later ones have their part."""
        now = self._clock()
        part = _WEIGHTS[stage] / sum(_WEIGHTS[name] for name in (stage, *later))
        return now + (self._search_end() - now) * part

    def _search(self, stage: str, settings: Sequence[Setting], deadline: float) -> None:
        """One stage by successive halving; the best so far is replaced where another is really better."""
        stay = _staying(stage, settings)
        settings = list(dict.fromkeys([*stay, *settings]))
        rung = search.first_rung(settings, self._requests(), stay=len(stay))
        done: list[Trial] = []
        lost: set[Setting] = set()
        among = tuple(settings)
        if rung is not None and (short := self._short(rung, deadline)):
            if self._short(rung, self._search_end()):
                self._found.unfinished.append(f"{stage}: not begun, {short}")
                return
            deadline = self._search_end()  # half a round says nothing: rather a later stage goes without
        while rung is not None:
            among = rung.settings
            made, whole = self._rung(stage, rung, lost, deadline)
            done += made
            if not whole:
                self._found.unfinished.append(
                    f"{stage}: round {rung.number + 1}, of {len(rung.settings)} settings, was not finished"
                )
                break
            costs = comparing.costs(made, stands=settings[0], objective=self._job.objective)
            rung = search.next_rung(rung, {one: cost for one, cost in costs.items() if one not in lost})
        able = self._paying(stage, stay, done, among)
        self._decide(stage, settings[0], done, able)
        picked = rung is not None and len(settings) > len(stay) + 1 and len(able) > len(stay)
        if picked and self._found.best != settings[0] and self._proven is None:
            self._proven = settings[0]

    def _short(self, rung: Rung[Setting], deadline: float) -> str:
        """Why a whole rung does not fit; empty: it does."""
        each, trials = self._estimate(rung), len(search.schedule(rung))
        if search.affords(self._clock(), deadline, each * trials):
            return ""
        return f"{trials} trials of some {each:.0f} s each do not fit into the budget"

    def _estimate(self, rung: Rung[Setting]) -> float:
        """Seconds of one of its trials."""
        return self._overhead + loads.seconds(self._open_loops(rung), self._pace)

    def _requests(self) -> int:
        """Requests of a trial: enough to compare, and more where starting a replica takes longer than they do."""
        enough = loads.least(self._found.traffic.concurrency)
        lasting = loads.seconds(self._open_loops(Rung(0, (), enough)), self._pace)
        return enough * max(1, min(_LONGER, round(self._overhead / (2 * lasting))))

    def _open_loops(self, rung: Rung[Setting]) -> list[Load]:
        return loads.open_loops(self._found.traffic, self._found.rates, rung.requests, self._prompts)

    def _search_end(self) -> float:
        """When the search has to end, so that the best setting's curve is still measured."""
        return max(self._clock(), min(self._began + _SEARCHED * self._job.budget, self._end - self._least_curve()))

    def _rung(self, stage: str, rung: Rung[Setting], lost: set[Setting], deadline: float) -> tuple[list[Trial], bool]:
        """Its trials, and whether all of them were made."""
        made: list[Trial] = []
        wanted, estimate = self._open_loops(rung), self._estimate(rung)
        for setting, turn in search.schedule(rung):
            if setting in lost:
                continue
            if not search.affords(self._clock(), deadline, estimate):
                return made, False
            trial = self._trial(stage, setting, rung.number, turn, wanted, expected=estimate)
            if trial.outcome.cut:
                return made, False
            made.append(trial)
            if trial.outcome.failure is not None:
                lost.add(setting)
        return made, True

    def _paying(
        self, stage: str, stay: Sequence[Setting], trials: Sequence[Trial], among: Sequence[Setting]
    ) -> Sequence[Setting]:
        """What may take the place of drafting that stands: plain decoding alone, unless other drafting beats that."""
        others = [one for one in among if one not in stay]
        if len(stay) == 1 or not others:
            return among
        found = self._compared(stage, stay[1], trials, others)
        return stay if found is not None and not found.won else among

    def _compared(
        self, stage: str, stands: Setting, trials: Sequence[Trial], among: Sequence[Setting]
    ) -> Comparison | None:
        """The best of some with another; it is kept."""
        rng = random.Random(f"{self._job.seed}/{stage}")
        objective = self._job.objective
        found = comparing.compare(stage, stands, trials, among=among, objective=objective, rng=rng)
        if found is not None:
            self._found.comparisons.append(found)
        return found

    def _decide(self, stage: str, stands: Setting, trials: Sequence[Trial], among: Sequence[Setting]) -> None:
        found = self._compared(stage, stands, trials, among)
        if found is not None and found.won:
            self._found.best = found.other
            self._progress.best(found.other, found)

    def _confirm(self) -> None:
        """Where several stages won, the sum of what they found against the present configuration.

        And where one picked the best of several by what these had shown: the best of ten is better by chance far more
        often than one of one is, so it has to be so once more, with nothing left to pick.
        """
        found = self._found
        end = self._end - self._least_curve()
        rungs = [Rung(0, (found.present, found.best), times * self._requests()) for times in (2, 1)]
        fits = [rung for rung in rungs if not self._short(rung, end)]
        made, whole = self._rung(CONFIRMATION, fits[0], set(), end) if fits else ([], False)
        if not whole:
            found.unfinished.append(f"confirmation: {found.best.label} was not held against the present configuration")
            if self._proven is not None:
                found.unfinished[-1] += ", and is one of several that may be better by chance"
                found.best = self._proven
                self._progress.best(found.best, None)
            return
        winner = found.best
        found.best = found.present
        self._decide(CONFIRMATION, found.present, made, (found.present, winner))
        if found.best != winner:
            self._progress.best(found.best, None)

    def _curves(self, drafting: Sequence[Setting]) -> None:
        """ITL and τ over concurrency for the best setting, plain decoding, and the other ways to draft, in turns."""
        found = self._found
        plain = [one for one in drafting if one.plain]
        wanted = loads.curve(found.traffic, self._prompts)
        estimate = self._overhead + loads.seconds(wanted, self._pace)
        lost = {trial.setting for trial in found.trials if trial.outcome.failure}
        settings = [one for one in dict.fromkeys([found.best, *plain, *drafting]) if one not in lost]
        for setting, turn in search.schedule(Rung(0, tuple(settings), 0)):
            if not search.affords(self._clock(), self._end, estimate):
                if turn == 0:
                    found.unfinished.append(f"curve: {setting.label} was not measured over concurrency")
                continue
            trial = self._trial(CURVE, setting, 0, turn, wanted, expected=estimate)
            if trial.outcome.cut and turn == 0:
                found.unfinished.append(f"curve: {setting.label} was not measured at every concurrency")

    def _least_curve(self) -> float:
        """Seconds that the curve of one setting takes."""
        return self._overhead + loads.seconds(loads.curve(self._found.traffic, self._prompts), self._pace)

    def _trial(
        self,
        stage: str,
        setting: Setting,
        rung: int,
        turn: int,
        wanted: Sequence[Load],
        *,
        expected: float | None = None,
    ) -> Trial:
        began = self._clock()
        left = self._end - began
        limit = left if expected is None else min(left, _PATIENCE * expected)
        self._progress.begins(stage, setting, rung, turn)
        outcome = self._bench.run(setting, wanted, limit)
        if outcome.cut and limit < left:
            why = f"it took more than {_PATIENCE:g} times as long as the present configuration"
            outcome = Outcome(outcome.loads, why, False, outcome.start_seconds)
        trial = Trial(setting, stage, rung, turn, self._clock() - began, outcome)
        self._found.trials.append(trial)
        self._progress.ended(trial)
        return trial


def _staying(stage: str, settings: Sequence[Setting]) -> list[Setting]:
    """What the others are held against: the setting that stands and, of ways to draft, plain decoding."""
    plain = [one for one in settings if one.plain] if stage == "speculation" else []
    return list(dict.fromkeys([settings[0], *plain]))
