"""Simulated time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.sim.clock import Clock


@given(st.lists(st.sampled_from([0.0, 1.0, 2.5])))
def test_calls_come_in_order_and_equal_moments_as_they_were_asked_for(moments: list[float]) -> None:
    clock = Clock()
    seen: list[tuple[float, int]] = []
    for index, moment in enumerate(moments):
        clock.at(moment, lambda index=index: seen.append((clock.now, index)))  # type: ignore[misc]
    while clock.step():
        pass
    assert seen == sorted((moment, index) for index, moment in enumerate(moments))


def test_a_cancelled_call_is_not_made_and_does_not_move_the_clock() -> None:
    clock = Clock()
    clock.later(5, lambda: None).cancel()
    assert not clock.step()
    assert clock.now == 0


def test_what_has_passed_is_now() -> None:
    clock = Clock()
    seen: list[float] = []
    clock.at(3, lambda: clock.at(1, lambda: seen.append(clock.now)))
    while clock.step():
        pass
    assert seen == [3]
