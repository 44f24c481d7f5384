"""The retry budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway.retries import LEAST, RATIO, WINDOW, RetryBudget


def taken(budget: RetryBudget, now: float) -> int:
    """How many retries there are right now."""
    count = 0
    while budget.take(now):
        count += 1
    return count


def test_few_requests_have_the_least() -> None:
    assert taken(RetryBudget(), 100.0) == LEAST


def test_many_requests_have_a_tenth() -> None:
    budget = RetryBudget()
    for _ in range(500):
        budget.request(100.0)
    assert taken(budget, 100.5) == 50


def test_it_is_about_the_last_ten_seconds() -> None:
    budget = RetryBudget()
    for _ in range(500):
        budget.request(100.0)
    assert taken(budget, 109.0) == 50
    assert taken(budget, 109.9) == 0
    assert taken(budget, 110.0) == 0, "the requests are forgotten, the retries are not"
    assert taken(budget, 119.0) == LEAST


def test_what_a_dead_replica_had_in_flight_may_all_be_sent_again() -> None:
    budget = RetryBudget()
    budget.died("r0", 40, 100.0)
    for _ in range(39):
        budget.died("r0", 39, 100.1)  # each of its requests says so
    assert taken(budget, 100.2) == 40 + LEAST


def test_the_credit_of_a_death_passes() -> None:
    budget = RetryBudget()
    budget.died("r0", 40, 100.0)
    assert taken(budget, 100.0 + WINDOW) == LEAST
    budget.died("r0", 5, 130.0)
    assert taken(budget, 130.0) == 5 + LEAST


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 40)), max_size=40))
def test_retries_are_bounded_in_every_window(steps: list[tuple[float, int]]) -> None:
    """Whatever comes: within any window, retries stay below a tenth of the requests of two windows, and the least."""
    budget = RetryBudget()
    now, requests, retries = 100.0, [], []
    for pause, arrivals in steps:
        now += pause
        for _ in range(arrivals):
            budget.request(now)
            requests.append(now)
        retries += [now] * taken(budget, now)
        lately = [at for at in retries if at > now - WINDOW + 1]
        assert len(lately) <= max(LEAST, RATIO * sum(at > now - 2 * WINDOW for at in requests)) + 1
