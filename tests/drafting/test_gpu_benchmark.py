"""The drafter's benchmark in engines: pairing with the reference, losslessness, and what its ratios divide."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.drafter import comparison, gpu, rejudged
from benchmarks.drafter import measure as on_a_cpu
from benchmarks.drafter.agreement import BOUNDS
from benchmarks.drafter.answers import Answer
from benchmarks.drafter.served import Run

from outrider.drafting.acceptance import Measurement, RecordAcceptance
from outrider.drafting.dataset import Row
from outrider.drafting.evaluation import Record, measure
from outrider.drafting.proposers import DraftProposer
from outrider.drafting.reference import generate
from outrider.drafting.sampling import Sampler

from . import tiny


def test_the_reference_finds_the_steps_that_a_loop_takes() -> None:
    """The loop stands for an engine: its τ, taken from its chunks, is the reference's to the last digit."""
    target, drafter = tiny.target(), tiny.drafter()
    target.tap(drafter.config.target_layer_ids)
    asked = [(1, 2, 3), (9, 8), (4, 4, 4, 4)]
    answers = []
    for prompt in asked:
        said = generate(target, prompt, DraftProposer(drafter, target), sampler=Sampler(), max_tokens=40)
        chunks = tuple((step.committed, 1) for step in said.steps)
        answers.append(Answer(tuple(said.tokens), chunks, 1.0))
    records = [Record(prompt, said.tokens) for prompt, said in zip(asked, answers, strict=True)]
    found = comparison.agreement(answers, measure(drafter, target, records))
    assert found.prompts == 3
    assert found.difference == pytest.approx(0.0)
    assert found.agrees(BOUNDS["vllm"])


def measured(*taus: float) -> Measurement:
    return Measurement(8, [RecordAcceptance("chat", torch.tensor([[tau - 1.0]])) for tau in taus])


def said(*taus: int) -> list[Answer]:
    """Answers with one step that the end could not have cut, of that many tokens."""
    return [Answer(tuple(range(8 + tau)), ((tau, 1), (7, 2)), 1.0) for tau in taus]


def test_differences_are_paired() -> None:
    found = comparison.agreement(said(3, 5, 4), measured(2.0, 4.0, 3.0))
    assert (found.engine, found.reference, found.error) == (4.0, 3.0, 0.0)


def test_prompts_without_a_whole_step_are_left_out() -> None:
    short = Answer((1, 2), ((1, 1),), 1.0)
    found = comparison.agreement([*said(3), short], measured(3.0, 5.0))
    assert (found.prompts, found.engine, found.reference) == (1, 3.0, 3.0)
    assert math.isnan(found.error)
    assert comparison.emit(found, BOUNDS["vllm"])["tau_difference_standard_error"] is None


def test_where_answers_part() -> None:
    assert comparison.first_difference((1, 2, 3), (1, 2, 3)) is None
    assert comparison.first_difference((1, 2, 3), (1, 4, 3)) == 1
    assert comparison.first_difference((1, 2), (1, 2, 3)) == 2


def test_a_wrong_token_shows_as_regret() -> None:
    target = tiny.target()
    prompt = (1, 2, 3)
    best = generate(target, prompt, None, sampler=Sampler(), max_tokens=12).tokens
    right = Answer(tuple(best), (), 1.0)
    worst = int(target.forward(torch.tensor([[*prompt, *best[:5]]])).logits[0, -1].argmin())
    wrong = Answer((*best[:5], worst, *best[6:]), (), 1.0)
    same = comparison.losslessness(target, [prompt], [right], [right])
    assert same["answers_equal"] == 1.0 and same["largest_regret_with"] == pytest.approx(0.0, abs=1e-5)
    assert same["regret_where_they_part_largest"] is None
    found = comparison.losslessness(target, [prompt, prompt], [right, right], [right, wrong])
    assert found["answers_equal"] == 0.5
    assert found["regret_where_they_part_largest"] > 0.0
    assert found["largest_regret_with"] >= found["regret_where_they_part_largest"]
    assert found["largest_regret_without"] == pytest.approx(0.0, abs=1e-5)


def runs() -> dict[str, Run]:
    plain = [Answer((1, 2, 3), ((1, 1), (1, 1)), 0.004)]
    fast = [Answer((1, 2, 3), ((2, 1),), 0.001)]
    return {
        "without": Run(width=32, answers={"json": plain}, load={"json": (100, 2.0)}),
        "with": Run(width=32, answers={"json": fast}, load={"json": (100, 1.0)}),
    }


def test_ratios_say_what_is_divided_by_what() -> None:
    both = runs()
    row = gpu.speeds("sglang", "json", both["without"], both["with"])
    assert (row["decode_ms_without"], row["decode_ms_with"]) == (2.0, 0.5)
    table = [row | {"tau_engine": 3.0, "tau_reference": 4.0}]
    assert gpu.ratios("sglang", table, both) == {
        "decode_ms_json_sglang_over_none": 0.25,
        "tau_sglang_over_reference_json": 0.75,
        "output_tps_c32_sglang_over_none": 2.0,
    }
    assert gpu.every_step(both["with"].answers) == 2.0


def test_what_did_not_run_gives_no_ratio() -> None:
    empty = {"without": Run(width=32), "with": Run(width=32)}
    row = gpu.speeds("vllm", "chat", empty["without"], empty["with"])
    assert row["decode_ms_over_none"] is None
    assert gpu.ratios("vllm", [row], empty) == {}


def test_an_engines_part_takes_its_own_place_only(tmp_path: Path) -> None:
    result = tmp_path / "gpu.json"
    around: dict[str, Any] = {"machine": {}, "versions": {"outrider": "1"}}
    for engine, version, value in (("sglang", "0.5", 1.0), ("vllm", "0.24", 2.0), ("sglang", "0.6", 3.0)):
        part = {
            "rows": [{"engine": engine, "value": value}],
            "ratios": {f"decode_ms_json_{engine}_over_none": value},
            "findings": {"with": Run(version=version).emit(), "without": Run().emit()},
        }
        result.write_text(json.dumps(gpu.merged(result, engine, part, around)))
    whole = json.loads(result.read_text())
    assert [(row["engine"], row["value"]) for row in whole["rows"]] == [("vllm", 2.0), ("sglang", 3.0)]
    assert whole["ratios"] == {"decode_ms_json_vllm_over_none": 2.0, "decode_ms_json_sglang_over_none": 3.0}
    assert whole["versions"] == {"outrider": "1", "vllm": "0.24", "sglang": "0.6"}


def row_of(engine: str, drafter: str, tau: float) -> dict[str, Any]:
    return {
        "engine": engine,
        "slice": "json",
        "drafter": drafter,
        "tau_engine": tau,
        "tau_reference": 4.0,
        "decode_ms_over_none": tau / 8,
    }


def test_ratios_on_a_cpu_are_of_the_dflash() -> None:
    assert on_a_cpu.ratios(
        [row_of("vllm", "dflash", 4.0), row_of("llamacpp", "dflash", 5.0), row_of("llamacpp", "dflash2", 6.0)]
    ) == {
        "tau_vllm_over_reference_json": 1.0,
        "decode_ms_json_vllm_cpu_over_none": 0.5,
        "tau_llamacpp_over_reference_json": 1.25,
        "decode_ms_json_llamacpp_over_none": 0.625,
    }


def test_kept_answers_are_judged_as_they_were_read() -> None:
    target, drafter = tiny.target(), tiny.drafter()
    target.tap(drafter.config.target_layer_ids)
    prompt = (1, 2, 3)
    loop = generate(target, prompt, DraftProposer(drafter, target), sampler=Sampler(), max_tokens=40)
    chunks = [(step.committed, 0) for step in loop.steps]
    chunks[-1] = (chunks[-1][0], len(chunks))  # the sum, told with the last one
    run = Run(answers={"chat": [Answer(tuple(loop.tokens), tuple(chunks), 1.0)]})
    said = rejudged.kept(json.loads(json.dumps({"answers": {"with": run.raw()}})))
    row = Row("a", "chat", "held_out", None, [*prompt, 2], [(len(prompt), len(prompt) + 1)])
    found = rejudged.acceptance("sglang", target, drafter, [row], said["chat"])
    assert found["paired_prompts"] == 1 and found["tau_agrees"]
    assert found["tau_difference"] == pytest.approx(0.0)
