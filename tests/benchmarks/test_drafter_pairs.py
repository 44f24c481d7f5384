"""Which steps of an answer count, when an engine agrees with the reference, and what the ratios divide."""

from __future__ import annotations

import math
from typing import Any

import pytest
from benchmarks.drafter.pairs import BOUNDS, Answer, Bound, answered, by_step, compare, ratios


def answer(steps: tuple[int, ...], seconds: float = 1.0) -> Answer:
    return Answer(tuple(range(1 + sum(steps))), steps, seconds)


def test_only_steps_whose_block_lies_inside_the_answer_count() -> None:
    # 14 tokens; blocks of 4 begin after 0, 4, 6, 9, 10 and 12: from 10 on, the fourth token after them is not there.
    assert answer((4, 2, 3, 1, 2, 1)).tau(4) == (4 + 2 + 3 + 1) / 4
    assert answer((4,)).tau(4) == 4, "a block that ends with the answer was not cut short"
    assert math.isnan(answer((1, 2)).tau(4))
    assert math.isnan(answer(()).tau(4))


def test_the_time_of_a_token_is_that_of_those_after_the_first() -> None:
    assert answer((4, 4), seconds=0.4).ms == pytest.approx(50)


def test_tokens_of_one_step_are_put_together() -> None:
    # Times as xllamacpp 2026.10.11549 sends them: after the first token 3 steps, of 6 tokens, of 2 and of 1.
    clock = [0.001, *[143.198] * 6, *[288.563] * 2, 301.5]
    said = [(10.0 + index, ms, [100 + index]) for index, ms in enumerate(clock)]
    found = answered(by_step(said))
    assert found == Answer(tuple(range(100, 110)), (6, 2, 1), 9.0)
    assert answered([]) == Answer((), (), 0.0)


def test_prompts_are_paired() -> None:
    found = compare([(3.0, 2.0), (5.0, 5.0), (math.nan, 4.0), (2.0, math.nan)])
    assert (found.prompts, found.engine, found.reference, found.difference) == (2, 4.0, 3.5, 0.5)
    assert found.error == pytest.approx(math.sqrt(0.5) / math.sqrt(2))
    assert compare([(3.0, 2.0)]).error is None
    with pytest.raises(ValueError, match="no prompt"):
        compare([(math.nan, 4.0)])


@pytest.mark.parametrize(
    ("engine", "pairs", "agrees"),
    [
        ("vllm", [(3.08, 3.0), (4.12, 4.0)], True),
        ("vllm", [(3.2, 3.0), (4.2, 4.0)], False),
        ("vllm", [(3.6, 3.0), (3.8, 4.0)], True),
        ("llamacpp", [(3.2, 3.0), (4.4, 4.0)], True),
        ("llamacpp", [(2.7, 3.0), (3.5, 4.0)], False),
        ("llamacpp", [(5.0, 3.0), (3.2, 4.0)], False),
    ],
    ids=["3 %", "more", "2 standard errors", "10 %", "fewer", "no errors"],
)
def test_an_engine_agrees_within_its_bound(engine: str, pairs: list[tuple[float, float]], agrees: bool) -> None:
    assert compare(pairs).agrees(BOUNDS[engine]) is agrees


def test_a_single_pair_has_a_share_alone() -> None:
    assert compare([(3.0, 3.0)]).agrees(Bound(0.0, 2.0))
    assert not compare([(3.1, 3.0)]).agrees(Bound(0.03, 2.0))


def row(engine: str, drafter: str, tau: float) -> dict[str, Any]:
    return {
        "engine": engine,
        "slice": "json",
        "drafter": drafter,
        "tau_engine": tau,
        "tau_reference": 4.0,
        "decode_ms_over_none": tau / 8,
    }


def test_ratios_say_what_is_divided_by_what() -> None:
    assert ratios([row("vllm", "dflash", 4.0), row("llamacpp", "dflash", 5.0), row("llamacpp", "dflash2", 6.0)]) == {
        "tau_vllm_over_reference_json": 1.0,
        "decode_ms_json_vllm_cpu_over_none": 0.5,
        "tau_llamacpp_over_reference_json": 1.25,
        "decode_ms_json_llamacpp_over_none": 0.625,
    }
