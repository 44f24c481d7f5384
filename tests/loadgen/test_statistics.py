from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.loadgen.statistics import Estimate, estimate, mean, quantile, ratio


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40), st.integers(1, 99))
def test_quantile_is_the_librarys(values: list[float], percent: int) -> None:
    expected = statistics.quantiles(values, n=100, method="inclusive")[percent - 1]
    assert quantile(sorted(values), percent / 100) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(("q", "count"), [(0.5, 20), (0.5, 200), (0.95, 200), (0.99, 600)])
def test_the_interval_covers_the_truth_as_often_as_it_says(q: float, count: int) -> None:
    rng = random.Random(11)
    covered = 0
    for _ in range(400):
        found = estimate([rng.random() for _ in range(count)], q)  # the q-quantile of the uniform is q
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= q <= found.high
    assert covered / 400 >= 0.93


def test_a_far_quantile_of_few_samples_has_no_upper_end() -> None:
    found = estimate(list(range(20)), 0.99)
    assert found is not None
    assert found.high is None
    assert found.low is not None
    assert estimate([], 0.5) is None


def test_the_means_interval() -> None:
    rng = random.Random(2)
    covered = 0
    for _ in range(400):
        found = mean([rng.gauss(5.0, 2.0) for _ in range(10)])
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 5.0 <= found.high
    assert 0.92 <= covered / 400 <= 0.98
    assert mean([1.0, 2.0]) == Estimate(1.5, None, None)


def test_a_ratio_and_its_interval() -> None:
    rng = random.Random(4)
    above, below = ([rng.gauss(centre, 0.1) for _ in range(200)] for centre in (3.0, 2.0))
    found = ratio(above, below, statistics.median, rng)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.5 < found.high
    assert found.high - found.low < 0.05
    assert ratio([1.0], [0.0], statistics.median, rng) is None
    assert ratio([1.0], [2.0], statistics.median, rng) == Estimate(0.5, None, None)
