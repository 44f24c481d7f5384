"""Histograms: what goes in is counted once, merging is adding, and a quantile is at most a bucket away."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.metrics.histograms import BOUNDS, Histogram

durations = st.lists(st.floats(1e-5, 1000.0), min_size=1, max_size=200)


def filled(values: list[float]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    return histogram


def test_bounds_are_log_spaced() -> None:
    assert (BOUNDS[0], BOUNDS[-1], len(BOUNDS)) == (1e-5, 1000.0, 41)
    ratios = [high / low for low, high in pairwise(BOUNDS)]
    assert min(ratios) > 1.56 and max(ratios) < 1.61


@given(durations)
def test_count_and_total(values: list[float]) -> None:
    histogram = filled(values)
    assert histogram.count == len(values)
    assert math.isclose(histogram.total, sum(values))


@given(durations, durations)
def test_merging_is_observing_both(left: list[float], right: list[float]) -> None:
    merged = filled(left)
    merged.merge(filled(right))
    both = filled(left + right)
    assert merged.counts == both.counts
    assert math.isclose(merged.total, both.total)


@given(durations, st.floats(0, 1))
def test_quantile_is_at_most_a_bucket_away(values: list[float], q: float) -> None:
    found = filled(values).quantile(q)
    exact = sorted(values)[max(0, math.ceil(q * len(values)) - 1)]
    assert found is not None
    assert exact / 1.61 <= found <= exact * 1.61


@given(durations, st.floats(0, 1), st.floats(0, 1))
def test_quantiles_rise(values: list[float], one: float, two: float) -> None:
    histogram = filled(values)
    low, high = histogram.quantile(min(one, two)), histogram.quantile(max(one, two))
    assert low is not None and high is not None and low <= high * (1 + 1e-12)


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_belongs_to_its_bucket(bound: float) -> None:
    assert filled([bound]).counts[BOUNDS.index(bound)] == 1


def test_edges() -> None:
    assert Histogram().quantile(0.5) is None
    assert filled([1e9]).quantile(1.0) == 1000.0
    assert filled([0.0]).count == 1
    for q in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError):
            filled([1.0]).quantile(q)
    with pytest.raises(ValueError):
        Histogram([1, 2])
    copy = filled([1.0, 2.0])
    assert Histogram(copy.counts, copy.total).quantile(0.5) == copy.quantile(0.5)
