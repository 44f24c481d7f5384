"""Successive halving: which trials come next, which settings stay, and whether one is really better. Pure.

A rung tries every setting in turns, forwards then backwards, so that a machine that slows down favours nobody; the
better half goes on to the next rung with twice the requests (Jamieson & Talwalkar, *Non-stochastic Best Arm
Identification and Hyperparameter Optimization*, 2016). Settings to compare with stay: the one that stands, and others.
Scores, times and random numbers come in as arguments.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from outrider.loadgen.statistics import CONFIDENCE, Estimate, quantile

S = TypeVar("S", bound=Hashable)

TURNS = 2
"""Of each setting in a rung: the least that shows how far a setting differs from itself."""
LEAST_PAIRS = 6
"""Requests of a comparison below which nothing is called better: 6 agree by chance in 1 of 32 cases, 5 in 1 of 16."""

LEAST_GAIN = 0.03
"""Of the time a token: a smaller one is not worth a new revision, and few requests cannot show it."""

_RESAMPLES = 1000


@dataclass(frozen=True, slots=True)
class Rung(Generic[S]):
    """Settings that are tried alike.

    Attributes:
        number: from 0.
        settings: the one that stands first.
        requests: of each trial.
        stay: the first so many are not halved away.
    """

    number: int
    settings: tuple[S, ...]
    requests: int
    stay: int = 1

    @property
    def last(self) -> bool:
        """It compares the best with those that stay, and nothing comes after it."""
        return len(self.settings) <= self.stay + 1


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a setting compares with the one that stands, over the same requests.

    Attributes:
        ratio: its cost ÷ the other's, with a 95 % interval; None: too few requests to say.
        noise: how far the ratio of one turn is from another's.
        better: the interval is all below 1, and the ratio farther below it than the noise and than :data:`LEAST_GAIN`.
        worse: the one that stands is better than the other, by the same rule and the ratios turned round: a setting
            that takes four times as long in one turn and nine times in the next is surely worse.
            Neither after a single turn, whose noise nobody knows.
    """

    ratio: Estimate | None
    noise: float
    better: bool
    worse: bool


def first_rung(settings: Sequence[S], requests: int, *, stay: int = 1) -> Rung[S] | None:
    """The first rung; None where there is nothing to compare."""
    return Rung(0, tuple(settings), requests, stay) if len(settings) > 1 else None


def schedule(rung: Rung[S]) -> list[tuple[S, int]]:
    """The trials of a rung in their order, each with its turn."""
    order = list(rung.settings)
    return [(setting, turn) for turn in range(TURNS) for setting in (order if turn % 2 == 0 else reversed(order))]


def next_rung(rung: Rung[S], costs: Mapping[S, float]) -> Rung[S] | None:
    """What goes on: those that stay, and the better half of the others; None: it is decided.

    Args:
        costs: of each setting, less is better. One that failed has none, and is out.
    """
    if rung.last:
        return None
    stands, *beside = rung.settings[: rung.stay]
    others = rung.settings[rung.stay :]
    staying = (stands, *(one for one in beside if one in costs))
    ranked = sorted((one for one in others if one in costs), key=lambda one: costs[one])
    kept = ranked[: math.ceil(len(others) / 2)]
    if not kept:
        return None
    return Rung(rung.number + 1, (*staying, *kept), rung.requests * 2, len(staying))


def affords(now: float, deadline: float, estimate: float) -> bool:
    """Whether a trial of ``estimate`` seconds that is begun now ends before the deadline."""
    return now + estimate <= deadline


def verdict(
    stands: Sequence[Mapping[Hashable, float]], other: Sequence[Mapping[Hashable, float]], rng: random.Random
) -> Verdict:
    """Compare two settings by what the same requests cost under each.

    The ratio is of sums, so that a request counts as much as it costs; its interval is a bootstrap over requests, drawn
    in pairs, since a long prompt is long for both.

    Args:
        stands, other: request → cost, one mapping a turn.
    """
    turns = _paired(stands, other)
    ratios = [_ratio(turn) for turn in turns]
    pairs = [pair for turn in turns for pair in turn]
    noise = max(ratios) - min(ratios) if ratios else 0.0
    if len(pairs) < LEAST_PAIRS:
        return Verdict(None, noise, better=False, worse=False)
    drawn = sorted(_ratio(rng.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLES))
    tail = (1 - CONFIDENCE) / 2
    low, high = quantile(drawn, tail), quantile(drawn, 1 - tail)
    value = _ratio(pairs)
    known = len(turns) >= TURNS
    better = known and high < 1 and value < 1 - max(noise, LEAST_GAIN)
    turned = 1 / min(ratios) - 1 / max(ratios)
    worse = known and low > 1 and 1 / value < 1 - max(turned, LEAST_GAIN)
    return Verdict(Estimate(value, low, high), noise, better, worse)


def ratio(stands: Sequence[Mapping[Hashable, float]], other: Sequence[Mapping[Hashable, float]]) -> float:
    """The cost of one setting ÷ another's over the requests that both were given; infinite where there are none.

    Args:
        stands, other: as for :func:`verdict`.
    """
    pairs = [pair for turn in _paired(stands, other) for pair in turn]
    return _ratio(pairs) if pairs else math.inf


def _paired(
    stands: Sequence[Mapping[Hashable, float]], other: Sequence[Mapping[Hashable, float]]
) -> list[list[tuple[float, float]]]:
    """What the same requests cost under each, turn by turn; turns without any are left out."""
    turns = [
        [(mine[key], turn[key]) for key in sorted(mine.keys() & turn.keys(), key=repr)]
        for mine, turn in zip(stands, other, strict=False)
    ]
    return [turn for turn in turns if turn]


def _ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return math.fsum(other for _, other in pairs) / math.fsum(stands for stands, _ in pairs)
