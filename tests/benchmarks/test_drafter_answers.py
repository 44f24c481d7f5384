"""What a stream says of verification steps, engine by engine, and which steps τ is taken over."""

from __future__ import annotations

import math
from typing import Any

import pytest
from benchmarks.drafter.answers import BODIES, Answer, read
from benchmarks.drafter.served import OPTIONS, Run

from outrider.engines.flags import flags


def vllm(*chunks: list[int]) -> Answer:
    return read("vllm", iter([(float(n), {"choices": [{"token_ids": ids}]}) for n, ids in enumerate(chunks)]))


def sglang(*chunks: tuple[int, int | None]) -> Answer:
    """Chunks by how many tokens there are so far, and how many steps the engine has counted."""
    events: list[tuple[float, dict[str, Any]]] = [
        (float(n), {"output_ids": list(range(length)), "meta_info": {} if steps is None else {"spec_verify_ct": steps}})
        for n, (length, steps) in enumerate(chunks)
    ]
    return read("sglang", iter(events))


def llamacpp(*said: tuple[float, int]) -> Answer:
    """Tokens that came one by one, each with the time of decoding that it carries."""
    return read(
        "llamacpp", iter([(n, {"tokens": [t], "timings": {"predicted_ms": ms}}) for n, (ms, t) in enumerate(said)])
    )


def test_the_first_token_is_the_prompts_own() -> None:
    assert vllm([1], [2, 3], [4, 5, 6]) == Answer((1, 2, 3, 4, 5, 6), ((2, 1), (3, 1)), 2.0)
    assert sglang((1, None), (3, 1), (6, 2)) == Answer((0, 1, 2, 3, 4, 5), ((2, 1), (3, 1)), 2.0)


def test_a_chunk_of_the_prompts_pass_and_a_step_counts_as_a_step() -> None:
    assert vllm([1, 2, 3], [4]).chunks == ((2, 1), (1, 1))
    assert sglang((3, 1), (4, 2)).chunks == ((2, 1), (1, 1))


def test_sglangs_joined_chunks_keep_their_steps() -> None:
    joined = sglang((1, None), (7, 2), (9, 3))
    assert joined.chunks == ((6, 2), (2, 1))
    assert joined.steps == 3


def test_a_step_that_sglang_counts_later_than_it_shows_is_not_lost() -> None:
    late = sglang((1, None), (4, 1), (6, 1), (6, 2))
    assert late.chunks == ((3, 1), (2, 1))


def test_where_sglang_tells_the_sum_with_the_last_chunk_each_chunk_is_a_step() -> None:
    assert sglang((1, None), (4, None), (6, None), (7, 3)).chunks == ((3, 1), (2, 1), (1, 1))
    joined = sglang((1, None), (9, None), (12, 3))
    assert joined.chunks == ((8, 0), (3, 3)), "which chunk holds two steps nobody knows"


def test_llamacpps_tokens_of_one_step_are_put_together() -> None:
    # Times as xllamacpp 2026.10.11549 sends them: after the first token 3 steps, of 6 tokens, of 2 and of 1.
    clock = [0.001, *[143.198] * 6, *[288.563] * 2, 301.5]
    found = llamacpp(*((ms, 100 + index) for index, ms in enumerate(clock)))
    assert found == Answer(tuple(range(100, 110)), ((6, 1), (2, 1), (1, 1)), 9)


def test_chunks_without_tokens_are_no_steps() -> None:
    assert vllm([], [1], [], [2, 3], []).chunks == ((2, 1),)
    nothing = read("vllm", iter([(0.0, {"choices": []})]))
    assert (nothing.tokens, nothing.chunks) == ((), ()) and math.isnan(nothing.seconds)


def test_without_a_drafter_a_step_is_a_token() -> None:
    plain = vllm([1], [2], [3], [4])
    assert (plain.steps, plain.ms) == (3, 1000.0)


def test_tau_is_taken_over_steps_that_the_end_cannot_have_cut() -> None:
    # 1 + 4 + 4 + 2 + 1 tokens; a block of 4 that begins at token 8 would reach past the end.
    answer = Answer(tuple(range(12)), ((4, 1), (4, 1), (2, 1), (1, 1)), 1.0)
    assert answer.tau(4) == 4.0
    assert math.isnan(answer.tau(12))


def test_a_block_that_ends_with_the_answer_was_not_cut_short() -> None:
    assert Answer(tuple(range(5)), ((4, 1),), 1.0).tau(4) == 4.0
    assert math.isnan(Answer((1,), (), 0.0).tau(4))


def test_an_answer_of_one_token_has_no_time_and_no_tau() -> None:
    assert math.isnan(vllm([1]).ms) and math.isnan(vllm([1]).tau(2))


def test_prompts_go_as_token_ids_and_greedily() -> None:
    path, body = BODIES["sglang"]("m", (1, 2), 5, True)
    assert (path, body["input_ids"]) == ("/generate", [1, 2])
    assert body["sampling_params"] == {"temperature": 0, "max_new_tokens": 5}
    path, body = BODIES["llamacpp"]("m", (1, 2), 5, True)
    assert (path, body["prompt"], body["n_predict"], body["temperature"]) == ("/completion", [1, 2], 5, 0)
    path, body = BODIES["vllm"]("m", (1, 2), 5, False)
    assert (path, body["prompt"], body["max_tokens"], body["temperature"]) == ("/v1/completions", [1, 2], 5, 0)


@pytest.mark.parametrize(("engine", "version"), [("sglang", "0.5.15.post1"), ("vllm", "0.24.0")])
def test_the_engines_have_the_flags_they_are_started_with(engine: str, version: str) -> None:
    extra = OPTIONS[engine]["extra"]
    assert flags(engine).checked(extra, {}) == extra
    flags(engine).check_version(extra, version)


def test_a_stage_that_fails_is_written_down_and_ends_the_run_only_where_it_is_needed() -> None:
    def fail(why: str) -> None:
        raise ValueError(why)

    run = Run()
    with run.stage("warm_up", needed=False) as said:
        said.append("request 1")
        fail("no grammar")
    with pytest.raises(ValueError, match="no port"), run.stage("start"):
        fail("no port")
    kept = [(one["stage"], one["ok"], one["said"]) for one in run.stages]
    assert kept == [
        ("warm_up", False, ["request 1", "ValueError: no grammar"]),
        ("start", False, ["ValueError: no port"]),
    ]


def test_tokens_a_second_of_a_slice_and_of_all() -> None:
    run = Run(load={"chat": (100, 2.0), "json": (300, 2.0)})
    assert (run.rate("json"), run.rate()) == (150.0, 100.0)
    assert math.isnan(run.rate("code")) and math.isnan(Run().rate())
