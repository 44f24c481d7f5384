"""Somebody else's histogram, kept in its own buckets."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.metrics.distribution import Distribution

BOUNDS = (0.1, 0.2, 0.4, math.inf)


def test_cumulative_counts_become_counts() -> None:
    found = Distribution.from_cumulative({0.2: 3, 0.1: 1, math.inf: 4, 0.4: 3}, 0.9)
    assert found == Distribution(BOUNDS, (1, 2, 0, 1), 0.9)
    assert (found.count, found.mean) == (4, 0.9 / 4)


@pytest.mark.parametrize("buckets", [{}, {0.1: 1.0}, {0.1: 2.0, math.inf: 1.0}, {math.inf: math.inf}])
def test_what_is_no_histogram_is_none(buckets: dict[float, float]) -> None:
    assert Distribution.from_cumulative(buckets, 0.0) is None


def test_quantiles_are_interpolated_in_their_bucket() -> None:
    found = Distribution(BOUNDS, (2, 4, 2, 0), 1.0)
    assert found.quantile(0.25) == pytest.approx(0.1)
    assert found.quantile(0.5) == pytest.approx(0.15)
    assert found.quantile(0.75) == pytest.approx(0.2)
    assert found.quantile(1.0) == pytest.approx(0.4)


def test_above_the_last_bound_is_said_to_be_that_bound() -> None:
    assert Distribution(BOUNDS, (0, 0, 0, 3), 30.0).quantile(0.5) == 0.4


def test_nothing_observed_has_no_quantile() -> None:
    empty = Distribution(BOUNDS, (0, 0, 0, 0), 0.0)
    assert empty.quantile(0.5) is None and empty.mean is None
    with pytest.raises(ValueError, match="between 0 and 1"):
        empty.quantile(1.5)


def test_between_two_pages() -> None:
    earlier, later = Distribution(BOUNDS, (1, 1, 0, 0), 0.25), Distribution(BOUNDS, (1, 3, 0, 1), 1.25)
    assert later.since(earlier) == Distribution(BOUNDS, (0, 2, 0, 1), 1.0)
    assert earlier.since(later) is None, "it restarted"
    assert later.since(Distribution((1.0, math.inf), (0, 0), 0.0)) is None


@given(st.lists(st.integers(0, 50), min_size=4, max_size=4), st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise(counts: list[int], one: float, other: float) -> None:
    found = Distribution(BOUNDS, tuple(counts), 1.0)
    low, high = found.quantile(min(one, other)), found.quantile(max(one, other))
    if low is None or high is None:
        assert not found.count
    else:
        assert 0 <= low <= high <= 0.4


@given(*[st.lists(st.integers(0, 9), min_size=4, max_size=4)] * 2)
def test_two_together_less_one_is_the_other(one: list[int], other: list[int]) -> None:
    first, second = Distribution(BOUNDS, tuple(one), 2.0), Distribution(BOUNDS, tuple(other), 3.0)
    both = first.plus(second)
    assert both is not None and both == second.plus(first)
    assert both.since(first) == second
    assert first.plus(Distribution((math.inf,), (1,), 1.0)) is None
