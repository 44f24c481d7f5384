"""Successive halving, without an engine: what it keeps, what it calls better, what it affords."""

from __future__ import annotations

import random
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.tuning.search import Rung, affords, first_rung, next_rung, schedule, verdict


@given(st.lists(st.floats(0.001, 1000), min_size=2, max_size=40, unique=True))
def test_halving_never_drops_the_best_of_deterministic_results(costs: list[float]) -> None:
    by_setting = dict(enumerate(costs))
    rung = first_rung(list(by_setting), 8)
    seen: list[Rung[int]] = []
    while rung is not None:
        seen.append(rung)
        rung = next_rung(rung, by_setting)
    challengers = {setting: cost for setting, cost in by_setting.items() if setting != 0}
    best = min(challengers, key=lambda setting: challengers[setting])
    assert all(best in rung.settings and rung.settings[0] == 0 for rung in seen)
    assert seen[-1].settings == (0, best)


@given(st.integers(2, 60))
def test_each_rung_has_half_the_challengers_and_twice_the_requests(count: int) -> None:
    rung = first_rung(list(range(count)), 8)
    while rung is not None:
        following = next_rung(rung, {setting: float(setting) for setting in rung.settings})
        if following is not None:
            assert len(following.settings) - 1 == -(-(len(rung.settings) - 1) // 2)
            assert (following.requests, following.number) == (2 * rung.requests, rung.number + 1)
        rung = following


def test_what_failed_goes_no_further() -> None:
    rung = Rung(0, ("stands", "fast but failed", "slow", "slower"), 8)
    assert next_rung(rung, {"stands": 1.0, "slow": 2.0, "slower": 3.0}) == Rung(1, ("stands", "slow", "slower"), 16)
    assert next_rung(rung, {"stands": 1.0}) is None


def test_one_setting_is_nothing_to_compare() -> None:
    assert first_rung(["alone"], 8) is None


def test_turns_go_forwards_and_backwards() -> None:
    assert schedule(Rung(0, ("a", "b", "c"), 8)) == [("a", 0), ("b", 0), ("c", 0), ("c", 1), ("b", 1), ("a", 1)]


def turns(*means: float, spread: float = 0.05, seed: int = 0) -> list[dict[Hashable, float]]:
    """Costs of twelve requests a turn around a mean; the same request is as long in each turn."""
    rng = random.Random(seed)
    lengths = [rng.uniform(1 - spread, 1 + spread) for _ in range(12)]
    return [{number: mean * length for number, length in enumerate(lengths)} for mean in means]


def rng() -> random.Random:
    return random.Random(1)


def test_a_clear_gain_is_better() -> None:
    found = verdict(turns(1.0, 1.0), turns(0.5, 0.5), rng())
    assert found.better and not found.worse
    assert found.ratio is not None and found.ratio.value == pytest.approx(0.5)


def test_a_clear_loss_is_worse() -> None:
    found = verdict(turns(1.0, 1.0), turns(2.0, 2.0), rng())
    assert found.worse and not found.better


def test_what_takes_four_times_as_long_and_then_nine_is_worse_and_turned_round_better() -> None:
    calm, wild = turns(1.0, 1.0), turns(4.0, 9.0)
    assert verdict(calm, wild, rng()).worse and verdict(wild, calm, rng()).better
    for other in (turns(0.8, 1.6), turns(0.9, 1.2)):
        assert not verdict(calm, other, rng()).worse and not verdict(other, calm, rng()).better


def test_the_same_is_neither() -> None:
    found = verdict(turns(1.0, 1.0), turns(1.0, 1.0), rng())
    assert not found.better and not found.worse


def test_a_machine_that_slows_down_for_both_is_no_noise() -> None:
    found = verdict(turns(1.0, 3.0), turns(0.8, 2.4), rng())
    assert found.better and found.noise == pytest.approx(0.0)


def test_a_gain_smaller_than_the_turns_disagree_is_none() -> None:
    """Each turn is faster, so the interval is below 1; but by a tenth in one and by a third in the other."""
    found = verdict(turns(1.0, 1.0), turns(0.95, 0.65), rng())
    assert found.ratio is not None and found.ratio.high is not None and found.ratio.high < 1
    assert found.noise == pytest.approx(0.3) and not found.better


def test_a_gain_of_a_hundredth_is_none_however_sure() -> None:
    found = verdict(turns(1.0, 1.0), turns(0.99, 0.99), rng())
    assert found.ratio is not None and found.ratio.high is not None and found.ratio.high < 1
    assert not found.better


def test_a_single_turn_says_nothing_since_nobody_knows_its_noise() -> None:
    found = verdict(turns(1.0), turns(0.5), rng())
    assert found.ratio is not None and found.ratio.value == pytest.approx(0.5)
    assert not found.better and not verdict(turns(1.0), turns(2.0), rng()).worse


def test_few_requests_say_nothing() -> None:
    found = verdict([{"a": 1.0, "b": 1.0}], [{"a": 0.1, "b": 0.1}], rng())
    assert found.ratio is None and not found.better


def test_only_requests_that_both_answered_are_compared() -> None:
    ours: dict[Hashable, float] = dict.fromkeys(range(10), 1.0)
    theirs: dict[Hashable, float] = dict.fromkeys(range(2, 12), 0.5)
    found = verdict([ours], [theirs], rng())
    assert found.ratio is not None and found.ratio.value == pytest.approx(0.5)


def test_a_trial_is_begun_only_if_it_ends_in_time() -> None:
    assert affords(10.0, 20.0, 10.0)
    assert not affords(10.0, 20.0, 10.1)
