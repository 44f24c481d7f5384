"""Reading a capacity curve: between its points, at its ends, against an objective."""

from __future__ import annotations

import pytest

from outrider.recipes import capacity
from outrider.recipes.schema import CapacityPoint
from outrider.spec.objective import Objective

CURVE = (
    CapacityPoint(concurrency=1, ttft_p50=0.1, itl_p50=0.010, itl_p95=0.02, output_tps=90),
    CapacityPoint(concurrency=9, ttft_p50=0.9, itl_p50=0.018, output_tps=490),
    CapacityPoint(concurrency=64, ttft_mean=30, itl_mean=0.05, output_tps=900),
)


def chosen(objective: Objective, most: int = 64, workload: float | None = None) -> capacity.Target:
    found = capacity.target(CURVE, objective, most=most, output_tokens=100, workload=workload)
    assert found is not None
    return found


def test_between_two_points_it_is_linear() -> None:
    point = capacity.at(CURVE, 5)
    assert point.concurrency == 5 and point.output_tps == pytest.approx(290)
    assert point.ttft_p50 == pytest.approx(0.5) and point.itl_p50 == pytest.approx(0.014)
    assert point.itl_p95 is None  # one end does not say


def test_a_mean_stands_for_a_median_that_one_end_lacks() -> None:
    point = capacity.at(CURVE, 36)
    assert point.ttft_p50 is None and point.ttft == pytest.approx((0.9 + 30) / 2, rel=0.05)


@pytest.mark.parametrize(("load", "index"), [(1, 0), (9, 1), (64, 2), (1000, 2)])
def test_at_a_point_and_beyond_the_ends_it_is_the_point(load: int, index: int) -> None:
    assert capacity.at(CURVE, load) is CURVE[index]


def test_no_curve_is_no_load() -> None:
    assert capacity.target((), Objective(), most=1, output_tokens=1, workload=None) is None
    with pytest.raises(ValueError, match="no point"):
        capacity.at((), 1)


def test_without_a_bound_nobody_is_made_to_wait_for_minutes() -> None:
    found = chosen(Objective())
    assert found.concurrency == 9 and found.pleasant and "give up" in found.reason
    alone = capacity.target(CURVE[2:], Objective(), most=64, output_tokens=100, workload=None)
    assert alone is not None and not alone.pleasant


def test_a_bound_decides_and_one_that_nothing_meets_says_so() -> None:
    assert chosen(Objective(itl=0.05, percentile=50)).concurrency == 64
    assert chosen(Objective(itl=0.019, percentile=50)).concurrency == 9
    none = chosen(Objective(itl=0.001))
    assert not none.met and none.concurrency == 1 and "1 ms wanted" in none.reason


def test_a_high_percentile_is_compared_with_p95_where_it_is_known() -> None:
    assert chosen(Objective(itl=0.015, percentile=95), most=1).met is False
    assert chosen(Objective(itl=0.015, percentile=50), most=1).met is True


def test_more_requests_than_a_replica_holds_need_several() -> None:
    assert "needs 3 replicas" in chosen(Objective(), workload=20).reason


@pytest.mark.parametrize(("value", "said"), [(1.5749, "1.57 s"), (0.0123, "12.3 ms"), (0.1, "0.1 s")])
def test_durations_have_three_digits(value: float, said: str) -> None:
    assert capacity.seconds(value) == said


def test_where_nobody_waits_throughput_alone_counts() -> None:
    found = capacity.target(CURVE, Objective(), most=64, output_tokens=100, workload=None, patient=True)
    assert found is not None and found.concurrency == 64 and found.pleasant
    assert "highest throughput" in found.reason


def test_a_load_at_which_people_give_up_is_said_to_be_one() -> None:
    found = capacity.target(CURVE[2:], Objective(), most=64, output_tokens=100, workload=None)
    assert found is not None and not found.pleasant
    assert "would give up" in found.reason
