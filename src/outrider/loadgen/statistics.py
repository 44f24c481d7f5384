"""Quantiles with their uncertainty: what is said about a benchmark beyond one number."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

CONFIDENCE = 0.95
"""Of every interval: the true value lies inside in 19 of 20 benchmarks."""

_RESAMPLES = 1000


class Estimate(NamedTuple):
    """A value with its confidence interval; ``low`` and ``high`` are None where the samples are too few for one."""

    value: float
    low: float | None
    high: float | None


def quantile(ordered: Sequence[float], q: float) -> float:
    """The q-quantile (0..1) of sorted values, linear between neighbours (R's type 7)."""
    position = q * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def estimate(values: Sequence[float], q: float) -> Estimate | None:
    """A quantile with its interval between two order statistics; None without values.

    The interval assumes no distribution: how many of n samples lie below the true quantile is binomial. (Hahn &
    Meeker, Statistical Intervals, §5.2.) Far quantiles of few samples have no upper end, and none is made up.
    """
    if not values:
        return None
    ordered = sorted(values)
    low, high = _ranks(len(ordered), q)
    return Estimate(
        quantile(ordered, q),
        ordered[low] if low is not None else None,
        ordered[high] if high is not None else None,
    )


def mean(values: Sequence[float]) -> Estimate | None:
    """The mean with its interval by Student's t; None without values."""
    if not values:
        return None
    centre = statistics.fmean(values)
    if len(values) < 4:
        return Estimate(centre, None, None)
    half = _student(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Estimate(centre, centre - half, centre + half)


def ratio(
    above: Sequence[float], below: Sequence[float], statistic: Callable[[Sequence[float]], float], rng: random.Random
) -> Estimate | None:
    """``statistic(above)`` ÷ ``statistic(below)`` with a bootstrap interval (percentile method, 1,000 resamples)."""
    if not above or not below or not (base := statistic(below)):
        return None
    value = statistic(above) / base
    if min(len(above), len(below)) < 5:
        return Estimate(value, None, None)
    drawn = []
    for _ in range(_RESAMPLES):
        divisor = statistic(rng.choices(below, k=len(below)))
        if divisor:
            drawn.append(statistic(rng.choices(above, k=len(above))) / divisor)
    drawn.sort()
    tail = (1 - CONFIDENCE) / 2
    return Estimate(value, quantile(drawn, tail), quantile(drawn, 1 - tail)) if drawn else Estimate(value, None, None)


def _ranks(count: int, q: float) -> tuple[int | None, int | None]:
    """Indices of the order statistics that enclose the q-quantile; None where that end needs more samples."""
    tail = (1 - CONFIDENCE) / 2
    low = high = None
    below = 0.0  # P(at most k samples lie below the quantile)
    for k in range(count + 1):
        below += math.exp(_log_choose(count, k) + k * math.log(q) + (count - k) * math.log1p(-q))
        if below <= tail:
            low = k
        if high is None and below >= 1 - tail:
            high = k if k < count else None
            break
    return low, high


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _student(freedom: int) -> float:
    """97.5 % quantile of Student's t, by the expansion of Abramowitz & Stegun 26.7.5 (within 0.5 % from 3 degrees)."""
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return math.fsum(term / math.pow(freedom, power) for power, term in enumerate(terms))
