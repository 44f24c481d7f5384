"""Durations as somebody else's histogram counted them: its own bucket bounds, kept as they are.

Engines choose their buckets (:class:`~outrider.metrics.histograms.Histogram` has ours). Re-binning them would add an
error of its own, so quantiles are read from the bounds that were counted.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise


@dataclass(frozen=True, slots=True)
class Distribution:
    """Counts of durations by size.

    Attributes:
        bounds: upper bounds in seconds, rising, each included in its bucket; the last is infinite.
        counts: one count a bucket, not cumulative.
        total: sum of all durations, in seconds.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @classmethod
    def from_cumulative(cls, buckets: Mapping[float, float], total: float) -> Distribution | None:
        """From Prometheus' cumulative counts by bound. None: no buckets, or counts that fall."""
        bounds = sorted(buckets)
        steps = [0.0, *(buckets[bound] for bound in bounds)]
        counts = [later - earlier for earlier, later in pairwise(steps)]
        if not bounds or bounds[-1] != math.inf or any(count < 0 or not math.isfinite(count) for count in counts):
            return None
        return cls(tuple(bounds), tuple(round(count) for count in counts), total)

    @property
    def count(self) -> int:
        """How many durations were observed."""
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """Seconds; None while empty."""
        return self.total / self.count if self.count else None

    def since(self, earlier: Distribution) -> Distribution | None:
        """What was observed between two pages of one engine; None: other buckets, or it restarted meanwhile."""
        if self.bounds != earlier.bounds or any(n < o for n, o in zip(self.counts, earlier.counts, strict=True)):
            return None
        counts = tuple(now - before for now, before in zip(self.counts, earlier.counts, strict=True))
        return Distribution(self.bounds, counts, self.total - earlier.total)

    def plus(self, other: Distribution) -> Distribution | None:
        """Both together; None: other buckets."""
        if self.bounds != other.bounds:
            return None
        counts = tuple(mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True))
        return Distribution(self.bounds, counts, self.total + other.total)

    def quantile(self, q: float) -> float | None:
        """The duration below which a share ``q`` (0 to 1) of them lies; None while empty.

        Interpolated linearly inside its bucket, as Prometheus' ``histogram_quantile`` does; what is above the last
        finite bound is reported as that bound.

        Raises:
            ValueError: ``q`` is not between 0 and 1.
        """
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
        if not self.count:
            return None
        totals = list(accumulate(self.counts))
        rank = max(q * self.count, 5e-324)  # above 0, so that the first bucket to reach it holds something
        index = bisect_left(totals, rank)
        if index == len(self.bounds) - 1:
            return self.bounds[-2] if index else None
        lower = self.bounds[index - 1] if index else 0.0
        held = self.counts[index]
        return lower + (self.bounds[index] - lower) * (rank - totals[index] + held) / held
