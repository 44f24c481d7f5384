from __future__ import annotations

import itertools
import random
import statistics

from outrider.loadgen.arrivals import arrivals, constant, poisson


def test_constant_arrivals_are_even() -> None:
    assert list(itertools.islice(constant(4.0), 5)) == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_poisson_gaps_are_exponential() -> None:
    times = list(itertools.islice(poisson(10.0, random.Random(1)), 20_000))
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert abs(statistics.fmean(gaps) - 0.1) < 0.003
    assert abs(statistics.stdev(gaps) - 0.1) < 0.004, "an exponential's deviation is its mean"


def test_the_same_seed_gives_the_same_times() -> None:
    first, second = (list(itertools.islice(arrivals("poisson", 3.0, random.Random(7)), 50)) for _ in range(2))
    assert first == second
