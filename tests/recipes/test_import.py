from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from outrider.errors import InvalidInput
from outrider.recipes.schema import Recipe
from outrider.recipes.sglang_cookbook import read_literal, read_sglang
from outrider.recipes.vllm_recipes import read_vllm

SAMPLES = Path(__file__).with_name("samples")
DAY = date(2026, 12, 1)


def _vllm() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((SAMPLES / "vllm-qwen3.6-27b-fp8.json").read_text())
    return loaded


def _sglang(name: str = "sglang-small.jsx") -> str:
    return (SAMPLES / name).read_text()


def test_a_recipe_of_the_vllm_project_becomes_one_of_ours() -> None:
    found = read_vllm(_vllm(), day=DAY, version="0.32.0")
    (recipe,) = (Recipe.model_validate(document) for document in found.recipes)
    assert recipe.id == "qwen3-6-27b/vllm-2xh200-fp8"
    assert recipe.model.id == "Qwen/Qwen3.6-27B"
    assert recipe.weights[0].reference == "hf:Qwen/Qwen3.6-27B-FP8"
    assert {name: flag.value for name, flag in recipe.flags.items()} == {
        "trust_remote_code": True,
        "gpus": 2,
        "slots": 512,
        "tool_call_parser": "qwen3_coder",
        "reasoning_parser": "qwen3",
    }
    assert (recipe.hardware.gpu, recipe.hardware.count, recipe.hardware.min_memory_bytes) == ("H200", 2, 16_500_000_000)
    assert (recipe.engine.version, recipe.engine.min_version) == ("0.32.0", "0.17.0")
    assert recipe.engine.environment.env == {"VLLM_USE_DEEP_GEMM": "0"}
    assert (recipe.model.facts.parameters, recipe.model.facts.context_length) == (27 * 10**9, 262144)
    assert (recipe.speculation.method, [option.method for option in recipe.drafters]) == ("off", ["mtp"])
    assert recipe.provenance.status == "published"
    assert recipe.provenance.url == "https://recipes.vllm.ai/Qwen/Qwen3.6-27B-FP8.json"


def test_fields_without_a_place_are_listed() -> None:
    found = read_vllm(_vllm(), day=DAY, version="0.32.0")
    assert found.unread == ["kv_offload_support", "meta.badges", "recommended_command.docker_image"]
    assert found.left_out == []


@pytest.mark.parametrize(
    ("change", "status", "note"),
    [
        (lambda d: d["meta"]["hardware"].pop("h200"), "untested", "names no run on this hardware"),
        (lambda d: d["recommended_command"]["argv"].append("--new-flag"), "untested", "left out: --new-flag"),
        (
            lambda d: d["recommended_command"]["argv"].extend(
                ["--speculative-config", '{"method":"eagle3","model":"a/b","num_speculative_tokens":3}']
            ),
            "untested",
            "",
        ),
    ],
)
def test_what_is_not_the_sources_own_run_is_untested(
    change: Callable[[dict[str, Any]], object], status: str, note: str
) -> None:
    data = _vllm()
    change(data)
    (document,) = read_vllm(data, day=DAY, version="0.32.0").recipes
    assert Recipe.model_validate(document).provenance.status == status
    assert note in document["provenance"]["note"]


def test_a_drafter_with_weights_is_listed_and_not_chosen() -> None:
    data = _vllm()
    words = ["--speculative-config", '{"method":"eagle3","model":"a/b","num_speculative_tokens":3}']
    data["recommended_command"]["argv"] += words
    (document,) = read_vllm(data, day=DAY, version="0.32.0").recipes
    recipe = Recipe.model_validate(document)
    assert recipe.speculation.method == "off"
    assert [(option.method, option.drafter, option.tokens) for option in recipe.drafters] == [
        ("eagle3", "hf:a/b", 3),
        ("mtp", None, 3),
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.pop("recommended_command"), "no recipe of the vLLM project"),
        (lambda d: d["recommended_command"].update(deploy_type="pd_cluster"), "pd_cluster"),
        (lambda d: d["recommended_command"].pop("argv"), "single_node"),
        (lambda d: d["recommended_command"]["hardware_profile"].update(brand="AMD"), "amd"),
    ],
)
def test_what_is_no_recipe_for_one_node_of_gpus_is_refused(
    change: Callable[[dict[str, Any]], object], says: str
) -> None:
    data = _vllm()
    change(data)
    with pytest.raises(InvalidInput, match=says):
        read_vllm(data, day=DAY, version="0.32.0")


@pytest.mark.parametrize("data", [None, [], "x", {"hf_id": 3}])
def test_other_json_is_refused(data: object) -> None:
    with pytest.raises(InvalidInput):
        read_vllm(data, day=DAY, version="0.32.0")


def test_every_cell_of_the_cookbook_becomes_a_recipe() -> None:
    found = read_sglang(_sglang(), day=DAY, version="0.5.23", benchmarks=_sglang("sglang-small-benchmarks.jsx"))
    fast, wide, other = (Recipe.model_validate(document) for document in found.recipes)
    assert [recipe.id for recipe in (fast, wide, other)] == [
        "small-27b/sglang-2xh200-fp8-latency",
        "small-27b/sglang-h200-bf16-throughput",
        "small-27b/sglang-b200-fp8",
    ]
    assert (fast.speculation.method, fast.speculation.tokens) == ("mtp", 3)
    assert fast.weights[0].reference == "hf:Org/Small-27B-FP8"
    assert fast.engine.environment.env == {"SGLANG_ENABLE_OVERLAP_PLAN_STREAM": "1"}
    assert (fast.provenance.status, fast.engine.version) == ("published", "0.5.16")
    assert [(p.concurrency, p.ttft, p.itl, p.output_tps, p.total_tps) for p in fast.capacity_curve] == [
        (1, 0.487, 0.0043, None, None),
        (16, 0.734, 0.01258, None, None),
    ]
    assert (wide.provenance.status, wide.engine.version) == ("untested", "0.5.23")
    assert "left out: --flag-of-tomorrow 3" in wide.provenance.note
    assert (other.profile, other.provenance.status) == ("balanced", "untested")
    assert found.left_out == [
        "small-27b/sglang-h200-bf16-throughput: --flag-of-tomorrow 3",
        "cells.3: it spans several nodes",
    ]
    assert found.unread == [
        "supportedHardware",
        "curl",
        "numPromptsByConc",
        "cells.*.warning",
        "tokens_per_sec_per_gpu",
    ]


def test_a_literal_keeps_what_is_in_its_texts() -> None:
    text = 'export const x = { a: \'it\\\'s // no comment\', "b,]": `{ c: "1" }`, d: [1, -2.5, 1e3, null,], /* , */ };'
    assert read_literal(text) == {"a": "it's // no comment", "b,]": '{ c: "1" }', "d": [1, -2.5, 1000, None]}


@pytest.mark.parametrize(
    "text", ["", "export const x = f();", "export const x = {a: y};", "export const x = {", "export const x = [...y];"]
)
def test_what_is_no_literal_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_literal(text)


@pytest.mark.parametrize("cell", ["1", "{}", "{match: {hw: 'h200', quant: 'fp8'}}", "{match: 1, flags: []}"])
def test_a_cell_that_is_none_is_refused(cell: str) -> None:
    text = f"export const config = {{modelNames: {{}}, cells: [{cell}]}};"
    with pytest.raises(InvalidInput, match=r"cells\.0"):
        read_sglang(text, day=DAY, version="0.5.23")
