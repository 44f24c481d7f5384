"""When an engine agrees with the reference."""

from __future__ import annotations

import math

import pytest
from benchmarks.drafter.agreement import BOUNDS, Bound, median, paired, rounded


def test_prompts_are_paired() -> None:
    found = paired([(3.0, 2.0), (5.0, 5.0), (math.nan, 4.0), (2.0, math.nan)])
    assert (found.prompts, found.engine, found.reference, found.difference) == (2, 4.0, 3.5, 0.5)
    assert found.error == pytest.approx(math.sqrt(0.5) / math.sqrt(2))
    assert math.isnan(paired([(3.0, 2.0)]).error)


@pytest.mark.parametrize(
    ("engine", "pairs", "agrees"),
    [
        ("vllm", [(3.08, 3.0), (4.12, 4.0)], True),
        ("vllm", [(3.2, 3.0), (4.2, 4.0)], False),
        ("vllm", [(3.6, 3.0), (3.8, 4.0)], True),
        ("sglang", [(3.2, 3.0), (4.2, 4.0)], False),
        ("llamacpp", [(3.2, 3.0), (4.4, 4.0)], True),
        ("llamacpp", [(2.7, 3.0), (3.5, 4.0)], False),
        ("llamacpp", [(5.0, 3.0), (3.2, 4.0)], False),
    ],
    ids=["3 %", "more", "2 standard errors", "more, too", "10 %", "fewer", "no errors"],
)
def test_an_engine_agrees_within_its_bound(engine: str, pairs: list[tuple[float, float]], agrees: bool) -> None:
    assert paired(pairs).agrees(BOUNDS[engine]) is agrees


def test_a_single_pair_has_a_share_alone() -> None:
    assert paired([(3.0, 3.0)]).agrees(Bound(0.0, 2.0))
    assert not paired([(3.1, 3.0)]).agrees(Bound(0.03, 2.0))


def test_an_engine_without_a_whole_step_agrees_with_nothing() -> None:
    nothing = paired([(math.nan, 4.0)])
    assert nothing.prompts == 0 and math.isnan(nothing.engine) and math.isnan(nothing.error)
    assert not nothing.agrees(BOUNDS["vllm"])


def test_what_is_no_number_is_left_out_or_null() -> None:
    assert median([3.0, math.nan, 1.0]) == 2.0 and math.isnan(median([math.nan]))
    assert (rounded(1.23456), rounded(math.nan), rounded(math.inf)) == (1.2346, None, None)
