"""What a tuning says: each way to draft over concurrency, its break-even, what each kind of traffic gains. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from outrider.tuning.comparing import Comparison
from outrider.tuning.search import LEAST_GAIN, Verdict
from outrider.tuning.settings import Setting, Stage
from outrider.tuning.trial import Loaded, describe, pooled
from outrider.tuning.tuner import CURVE, Tuning


@dataclass(frozen=True, slots=True)
class Point:
    """One way to draft at one concurrency, with one kind of traffic or all of it.

    Attributes:
        kind: of traffic; None: all kinds, by their share of the requests.
        itl: median seconds a token after the first.
        acceptance_length: τ; 1 where nothing drafts.
        step: seconds of a verification step, ITL × τ.
        break_even: τ from which on this way pays here, its step ÷ plain decoding's; None: plain was not measured.
        figures: all that was measured, as :func:`~outrider.tuning.trial.pooled` gives it.
    """

    setting: Setting
    kind: str | None
    concurrency: int
    itl: float
    acceptance_length: float
    step: float
    break_even: float | None
    figures: dict[str, Any]

    @property
    def pays(self) -> bool | None:
        """Whether its τ is beyond the break-even, by more than few requests can show (:data:`LEAST_GAIN`).

        And beyond 1, since drafts that are never accepted gain nothing. None: not known, or it is plain decoding.
        """
        if self.break_even is None or self.setting.plain:
            return None
        return self.acceptance_length > max(1.0, (1 + LEAST_GAIN) * self.break_even)


def curves(tuning: Tuning) -> list[Point]:
    """Each way to draft that was measured over concurrency, with the flags of the best setting; all traffic, then each
    kind."""
    trials = [trial for trial in tuning.trials if trial.stage == CURVE and trial.outcome.failure is None]
    names: list[str | None] = [None]
    if len(tuning.traffic.kinds) > 1:
        names += [kind.name for kind in tuning.traffic.kinds]
    settings = sorted({trial.setting for trial in trials}, key=_rank)
    found: list[Point] = []
    for name in names:
        plain: dict[int, float] = {}
        for setting in settings:
            mine = [load for trial in trials if trial.setting == setting for load in trial.outcome.loads]
            found += _points(setting, [load for load in mine if name in (None, load.kind)], name, plain)
    return found


def _rank(setting: Setting) -> tuple[object, ...]:
    """Plain decoding first, then each method by its block length, as a number."""
    return not setting.plain, setting.speculation.method, setting.speculation.tokens or 0, setting.label


def _points(setting: Setting, loads: Sequence[Loaded], kind: str | None, plain: dict[int, float]) -> list[Point]:
    """One way to draft, by concurrency; plain decoding, which comes first, leaves its steps in ``plain``."""
    found = []
    for level in sorted({load.concurrency for load in loads if load.concurrency is not None}):
        figures = pooled([load for load in loads if load.concurrency == level])
        if figures is None or figures["itl_p50"] is None:
            continue
        tau = figures["acceptance_length"] or 1.0
        step = figures["itl_p50"] * tau
        if setting.plain:
            plain[level] = step
        even = step / plain[level] if level in plain else None
        found.append(Point(setting, kind, level, figures["itl_p50"], tau, step, even, figures))
    return found


def curve_of(tuning: Tuning, setting: Setting) -> list[tuple[int, dict[str, Any]]]:
    """Every closed loop that a setting went through, by concurrency, all kinds of traffic together."""
    loads: dict[int, list[Loaded]] = {}
    for trial in tuning.trials:
        if trial.setting == setting and trial.outcome.failure is None:
            for load in trial.outcome.loads:
                if load.concurrency is not None:
                    loads.setdefault(load.concurrency, []).append(load)
    kinds = {kind.name for kind in tuning.traffic.kinds}
    whole = {level: mine for level, mine in loads.items() if {load.kind for load in mine} == kinds}
    return [(level, figures) for level in sorted(whole) if (figures := pooled(whole[level])) is not None]


def slices(tuning: Tuning) -> list[dict[str, Any]]:
    """Each way to draft with each kind of traffic at the workload's concurrency, and what it gains over plain decoding.

    ``ms_per_token`` is the median ITL in milliseconds, ``speedup`` plain decoding's ITL ÷ this one's.
    """
    level = tuning.traffic.concurrency
    points = [point for point in curves(tuning) if point.concurrency == level]
    if len(tuning.traffic.kinds) > 1:
        points = [point for point in points if point.kind is not None]
    plain = {point.kind: point.itl for point in points if point.setting.plain}
    only = tuning.traffic.kinds[0].name
    return [
        {
            "kind": point.kind or only,
            "drafting": point.setting.drafting,
            "acceptance_length": round(point.acceptance_length, 3),
            "ms_per_token": round(1000 * point.itl, 3),
            "speedup": round(plain[point.kind] / point.itl, 3) if point.kind in plain else None,
            "break_even": None if point.break_even is None else round(point.break_even, 3),
            "pays": point.pays,
        }
        for point in points
    ]


def tried(tuning: Tuning, stage: Stage | str) -> list[dict[str, Any]]:
    """The settings of a stage over all its trials: cost, ITL, TTFT, spread between turns, or why one lost."""
    trials = [trial for trial in tuning.trials if trial.stage == stage]
    found = []
    for setting in dict.fromkeys(trial.setting for trial in trials):
        mine = [trial for trial in trials if trial.setting == setting]
        figures = pooled([load for trial in mine if trial.counts for load in trial.outcome.loads])
        turns = [one["cost_p50"] for trial in mine if trial.counts and (one := pooled(trial.outcome.loads))]
        failure = next((trial.outcome.failure for trial in mine if trial.outcome.failure), None)
        spread = (max(turns) - min(turns)) / min(turns) if turns else None
        found.append(
            {"setting": describe(setting), "trials": len(mine), "failure": failure, "figures": figures,
             "spread": spread}
        )  # fmt: skip
    return found


def as_dict(tuning: Tuning) -> dict[str, Any]:
    """All of it for JSON, single requests included."""
    traffic = tuning.traffic
    return {
        "endpoint": tuning.job.plan.endpoint,
        "engine": f"{tuning.job.plan.engine} {tuning.job.plan.engine_version}",
        "recipe": tuning.job.plan.recipe,
        "workload": {
            "name": traffic.name,
            "concurrency": traffic.concurrency,
            "kinds": {kind.name: round(kind.share, 4) for kind in traffic.kinds},
            "rates": {kind: round(rate, 4) for kind, rate in tuning.rates.items()},
        },
        "budget": tuning.job.budget,
        "seconds": round(tuning.seconds, 1),
        "seed": tuning.job.seed,
        "present": describe(tuning.present),
        "best": describe(tuning.best),
        "improved": tuning.improved,
        "comparisons": [_comparison(one) for one in tuning.comparisons],
        "slices": slices(tuning),
        "curves": [_point(point) for point in curves(tuning)],
        "stages": {stage: tried(tuning, stage) for stage in dict.fromkeys(trial.stage for trial in tuning.trials)},
        "unfinished": tuning.unfinished,
        "trials": [trial.as_dict() for trial in tuning.trials],
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    return {
        "stage": one.stage,
        "stands": one.stands.label,
        "other": one.other.label,
        "won": one.won,
        **_verdict(one.verdict),
        "kinds": {kind: _verdict(verdict) for kind, verdict in one.kinds.items()},
    }


def _verdict(found: Verdict) -> dict[str, Any]:
    ratio = None if found.ratio is None else {name: round(v, 4) for name, v in found.ratio._asdict().items() if v}
    return {"cost_other_over_stands": ratio, "noise": round(found.noise, 4), "better": found.better,
            "worse": found.worse}  # fmt: skip


def _point(point: Point) -> dict[str, Any]:
    return {
        "drafting": point.setting.drafting,
        "setting": point.setting.label,
        "kind": point.kind,
        "concurrency": point.concurrency,
        "itl_p50": round(point.itl, 6),
        "acceptance_length": round(point.acceptance_length, 4),
        "step": round(point.step, 6),
        "break_even": None if point.break_even is None else round(point.break_even, 4),
        "pays": point.pays,
        "output_tps": round(point.figures["output_tps"], 2),
    }
