from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.engines.normalise import NORMALISERS, EngineMetrics, llamacpp, sglang, vllm
from outrider.engines.page import Sample, samples

PAGE = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 310
llamacpp:prompt_tokens_cached_total 12
llamacpp:prompt_seconds_total 1.82441
llamacpp:tokens_predicted_total 240
llamacpp:tokens_predicted_seconds_total 2.5
llamacpp:n_decode_total 150
llamacpp:spec_decode_num_draft_tokens_total 90
llamacpp:spec_decode_num_accepted_tokens_total 45
llamacpp:spec_decode_num_drafts_total 30
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 20
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 25
llamacpp:requests_processing 3
llamacpp:requests_deferred 2
"""
RECORDED = Path(__file__).with_name("recorded")
VLLM_PAGE = (RECORDED / "vllm-0.32.0-metrics.txt").read_text()
SGLANG_PAGE = (RECORDED / "sglang-0.5.15.post1-metrics.txt").read_text()
PER_TOKEN = "vllm:request_time_per_output_token_seconds"


def test_reads_llamacpp() -> None:
    metrics = NORMALISERS["llamacpp"](PAGE)
    assert metrics == EngineMetrics(
        running=3,
        waiting=2,
        prompt_tokens=310,
        cached_tokens=12,
        generated_tokens=240,
        work=150,
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


@given(st.text() | st.lists(st.sampled_from(VLLM_PAGE.splitlines() + SGLANG_PAGE.splitlines())).map("\n".join))
def test_any_text_is_survived(text: str) -> None:
    for normalise in NORMALISERS.values():
        found = normalise(text)
        assert isinstance(found, EngineMetrics)
        assert found.acceptance_length is None or found.acceptance_length >= 1


def test_reads_the_page_of_a_real_vllm() -> None:
    found = vllm(VLLM_PAGE)
    assert (found.running, found.waiting, found.preemptions, found.asleep) == (0, 0, 0, False)
    assert (found.prompt_tokens, found.cached_tokens) == (1238 - 640, 640)
    assert found.prefix_hit_rate == 640 / 1238
    assert (found.drafts, found.drafted_tokens, found.accepted_tokens) == (23, 91, 64)
    assert found.accepted_by_position == (21, 18, 14, 11)
    assert sum(found.accepted_by_position) == found.accepted_tokens
    assert found.acceptance_length == 1 + 64 / 23
    assert found.ttft is not None and found.itl is not None and found.queue is not None
    assert found.ttft.count == found.queue.count == 10
    assert found.kv_usage == 0.0


def test_the_itl_of_vllm_is_a_tokens_not_a_steps() -> None:
    itl = vllm(VLLM_PAGE).itl
    line = next(line for line in VLLM_PAGE.splitlines() if line.startswith(f"{PER_TOKEN}_sum"))
    assert itl is not None and itl.total == float(line.split()[-1])


def test_a_sleeping_vllm() -> None:
    asleep = VLLM_PAGE.replace('sleep_state="awake"} 1.0', 'sleep_state="awake"} 0.0')
    assert vllm(asleep).asleep is True
    assert vllm("").asleep is None


def test_the_ranks_of_a_vllm_are_one_engine() -> None:
    page = (
        'vllm:num_requests_running{engine="0"} 2\nvllm:num_requests_running{engine="1"} 3\n'
        'vllm:kv_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.4\n'
    )
    found = vllm(page)
    assert found.running == 5
    assert found.kv_usage == pytest.approx(0.3)


def test_reads_a_page_of_sglangs_own_collectors() -> None:
    found = sglang(SGLANG_PAGE)
    assert (found.running, found.waiting, found.kv_usage) == (2, 1, 0.25)
    assert (found.prompt_tokens, found.cached_tokens, found.generated_tokens) == (344, 256, 250)
    assert found.drafts == 86
    assert found.acceptance_length == pytest.approx((250 - 3) / 86), "every token but each request's first is a step's"
    assert found.ttft is not None and found.ttft.count == 3
    assert found.itl is not None and found.itl.count == 247, "one a token"
    assert found.queue is not None and found.queue.count == 3
    assert found.accepted_by_position == () and found.drafted_tokens is None


def test_sglang_without_speculation_has_no_acceptance_length() -> None:
    page = "\n".join(line for line in SGLANG_PAGE.splitlines() if "spec_verify_calls" not in line)
    assert sglang(page).acceptance_length is None
    assert sglang(page.replace("sglang:cached_tokens_total{", "sglang:other{")).cached_tokens == 0


def test_sglang_counts_no_request_twice() -> None:
    by_priority = (
        'sglang:num_running_reqs{priority="",tp_rank="0"} 5\n'
        'sglang:num_running_reqs{priority="1",tp_rank="0"} 3\nsglang:num_running_reqs{priority="2",tp_rank="0"} 2\n'
    )
    assert sglang(by_priority).running == 5, "the total stands beside its parts"
    every = [(dp, pp, tp) for dp in range(2) for pp in range(2) for tp in range(2)]
    running = "".join(
        f'sglang:num_running_reqs{{dp_rank="{dp}",pp_rank="{pp}",tp_rank="{2 * dp + tp}"}} {dp + 1}\n'
        for dp, pp, tp in every
    )
    assert sglang(running).running == 1 + 2, "what the ranks of a data-parallel group say is said once"


def histogram(rank: int, buckets: dict[str, int]) -> str:
    """A vLLM's TTFT as one of its ranks counted it."""
    name = "vllm:time_to_first_token_seconds_bucket"
    return "".join(f'{name}{{engine="{rank}",le="{bound}"}} {count}\n' for bound, count in buckets.items())


def test_the_histograms_of_ranks_are_added_where_their_buckets_agree() -> None:
    one, other = histogram(0, {"0.1": 5, "+Inf": 10}), histogram(1, {"0.1": 7, "+Inf": 8})
    together = vllm(one + other).ttft
    assert together is not None and together.counts == (12, 6)
    assert vllm(one + histogram(1, {"0.2": 7, "+Inf": 8})).ttft is None, "2 of 18 lay between 0.1 and 0.2: nobody knows"


@pytest.mark.parametrize("position", ["", "x", "-1"])
def test_a_position_that_is_none_is_passed_over(position: str) -> None:
    line = f'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{{position="{position}"}} 1\n'
    assert llamacpp(line).accepted_by_position == ()
