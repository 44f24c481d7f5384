"""Histograms of durations with fixed buckets, so that any two can be merged.

Bounds are the R5 series of preferred numbers (1, 1.6, 2.5, 4, 6.3 per decade; ISO 3) from 10 µs to 1000 s: a bucket is
at most 1.6 times as wide as it starts, which bounds a quantile's error, and 42 counts are cheap to keep and scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

BOUNDS: tuple[float, ...] = (
    *(float(f"{step}e{decade}") for decade in range(-5, 3) for step in ("1", "1.6", "2.5", "4", "6.3")),
    1000.0,
)
"""Upper bounds in seconds, each included in its bucket; one more bucket takes what is above the last."""


class Histogram:
    """Counts of durations by size.

    Attributes:
        counts: one count a bucket of :data:`BOUNDS`, and one above.
        total: sum of all durations, in seconds.
    """

    __slots__ = ("counts", "total")

    def __init__(self, counts: Sequence[int] | None = None, total: float = 0.0) -> None:
        self.counts = [0] * (len(BOUNDS) + 1) if counts is None else list(counts)
        if len(self.counts) != len(BOUNDS) + 1:
            raise ValueError(f"a histogram has {len(BOUNDS) + 1} buckets, not {len(self.counts)}")
        self.total = total

    @property
    def count(self) -> int:
        """How many durations were observed."""
        return sum(self.counts)

    def observe(self, seconds: float) -> None:
        """Count one duration. Half a microsecond: a bisection and two additions."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def merge(self, other: Histogram) -> None:
        """Add another histogram's counts to this one."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def quantile(self, q: float) -> float | None:
        """The duration below which a share ``q`` (0 to 1) of them lies; None while empty.

        Interpolated geometrically inside its bucket, so the error is at most a bucket's width. What is above the last
        bound is reported as that bound.

        Raises:
            ValueError: ``q`` is not between 0 and 1.
        """
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
        count = self.count
        if not count:
            return None
        rank = max(q * count, 5e-324)  # above 0, so that the first bucket to reach it is one that holds something
        totals = list(accumulate(self.counts))
        index = bisect_left(totals, rank)
        held = self.counts[index]
        return _within(index, (rank - totals[index] + held) / held)


def _within(index: int, share: float) -> float:
    if index == len(BOUNDS):
        return BOUNDS[-1]
    upper = BOUNDS[index]
    lower = BOUNDS[index - 1] if index else upper / 1.6
    return float(lower * (upper / lower) ** share)
