"""From trials to who is better: costs of settings, and each stage's comparison, whole and by kind of traffic. Pure."""

from __future__ import annotations

import random
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from outrider.recipes import capacity
from outrider.recipes.schema import CapacityPoint
from outrider.spec.objective import Objective
from outrider.tuning.search import Verdict, ratio, verdict
from outrider.tuning.settings import Setting
from outrider.tuning.trial import Trial, pooled


@dataclass(frozen=True, slots=True)
class Comparison:
    """The setting that stood and the best other of a stage, over the same requests.

    Attributes:
        verdict: of all kinds of traffic together.
        kinds: of each.
    """

    stage: str
    stands: Setting
    other: Setting
    verdict: Verdict
    kinds: Mapping[str, Verdict]

    @property
    def won(self) -> bool:
        """The other is really better."""
        return self.verdict.better


def costs(trials: Sequence[Trial], *, stands: Setting, objective: Objective) -> dict[Setting, float]:
    """Mean seconds a token of each setting whose trials all count and that keeps what ``stands`` keeps."""
    found: dict[Setting, float] = {}
    kept = not broken(trials, stands, objective)
    for setting in dict.fromkeys(trial.setting for trial in trials):
        mine = [trial for trial in trials if trial.setting == setting]
        if not all(trial.counts for trial in mine) or (kept and broken(trials, setting, objective)):
            continue
        found[setting] = statistics.fmean(cost for trial in mine for cost in trial.costs().values())
    return found


def broken(trials: Sequence[Trial], setting: Setting, objective: Objective) -> list[str]:
    """Bounds of an objective that a setting's trials break, by kind of traffic."""
    mine = [load for trial in trials if trial.setting == setting for load in trial.outcome.loads]
    found: list[str] = []
    for kind in dict.fromkeys(load.kind for load in mine):
        loads = [load for load in mine if load.kind == kind]
        figures = pooled(loads)
        if figures is None:
            continue
        names = ("ttft_p50", "ttft_p95", "itl_p50", "itl_p95")
        point = CapacityPoint(concurrency=1, **{name: figures[name] for name in names if figures[name]})
        tokens = round(statistics.fmean(sample.tokens for load in loads for sample in load.samples))
        found += [f"{kind}: {text}" for text in capacity.violations(point, objective, tokens)]
    return found


def compare(
    stage: str,
    stands: Setting,
    trials: Sequence[Trial],
    *,
    among: Sequence[Setting],
    objective: Objective,
    rng: random.Random,
) -> Comparison | None:
    """The best of ``among`` against the one that stood, over all trials of a stage; None: nothing to compare.

    A setting's n-th trial is compared with the other's n-th: they were made in the same turn of the same rung. The best
    is found so, too: where a rung was not finished, not all of them were given the same requests.
    """
    kept = costs(trials, stands=stands, objective=objective)
    others = [setting for setting in kept if setting != stands and setting in among]
    if stands not in kept or not others:
        return None
    ours = _turns(trials, stands)
    best = min(others, key=lambda setting: ratio(_keyed(ours), _keyed(_turns(trials, setting))))
    theirs = _turns(trials, best)
    kinds = dict.fromkeys(key[0] for turn in ours for key in turn)
    return Comparison(
        stage,
        stands,
        best,
        verdict(_keyed(ours), _keyed(theirs), rng),
        {kind: verdict(_keyed(ours, kind), _keyed(theirs, kind), rng) for kind in kinds},
    )


def _turns(trials: Sequence[Trial], setting: Setting) -> list[dict[tuple[str, int], float]]:
    """Costs of a setting's requests, one mapping a turn."""
    return [trial.costs() for trial in trials if trial.setting == setting and trial.counts]


def _keyed(turns: Sequence[Mapping[tuple[str, int], float]], kind: str | None = None) -> list[dict[Hashable, float]]:
    return [{key: cost for key, cost in turn.items() if kind in (None, key[0])} for turn in turns]
