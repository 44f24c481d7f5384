from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.engines.normalise import NORMALISERS, EngineMetrics, llamacpp
from outrider.engines.page import Sample, samples

PAGE = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 310
llamacpp:prompt_tokens_cached_total 12
llamacpp:prompt_seconds_total 1.82441
llamacpp:tokens_predicted_total 240
llamacpp:tokens_predicted_seconds_total 2.5
llamacpp:spec_decode_num_draft_tokens_total 90
llamacpp:spec_decode_num_accepted_tokens_total 45
llamacpp:spec_decode_num_drafts_total 30
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 20
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 25
llamacpp:requests_processing 3
llamacpp:requests_deferred 2
"""


def test_reads_llamacpp() -> None:
    metrics = NORMALISERS["llamacpp"](PAGE)
    assert metrics == EngineMetrics(
        running=3,
        waiting=2,
        prompt_tokens=310,
        cached_tokens=12,
        generated_tokens=240,
        prompt_seconds=1.82441,
        generation_seconds=2.5,
        drafts=30,
        drafted_tokens=90,
        accepted_tokens=45,
        accepted_by_position=(25, 20),
    )


def test_the_acceptance_length_counts_the_bonus_token() -> None:
    assert llamacpp(PAGE).acceptance_length == 2.5


def test_without_a_step_there_is_no_acceptance_length() -> None:
    assert EngineMetrics(drafts=0, accepted_tokens=0).acceptance_length is None
    assert EngineMetrics().acceptance_length is None


def test_the_acceptance_length_between_two_pages() -> None:
    earlier, later = EngineMetrics(drafts=30, accepted_tokens=45), EngineMetrics(drafts=40, accepted_tokens=75)
    assert later.since(earlier) == 4.0
    assert earlier.since(later) is None, "the engine restarted"
    assert later.since(later) is None
    assert later.since(EngineMetrics()) is None


def test_what_is_not_there_is_unknown() -> None:
    assert llamacpp("") == EngineMetrics()
    assert llamacpp("llamacpp:requests_processing NaN\n").running is None


def test_labels_escapes_and_timestamps() -> None:
    page = 'a{x="1",y="q\\"\\\\\\n}"} 2.5 1700000000\nb +Inf\nnot a sample at all\n'
    assert samples(page) == [Sample("a", {"x": "1", "y": 'q"\\\n}'}, 2.5), Sample("b", {}, float("inf"))]


@given(st.text())
def test_any_text_is_survived(text: str) -> None:
    assert isinstance(llamacpp(text), EngineMetrics)


@pytest.mark.parametrize("position", ["", "x", "-1"])
def test_a_position_that_is_none_is_passed_over(position: str) -> None:
    line = f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="{position}"}} 1\n'
    assert llamacpp(line).accepted_by_position == ()
