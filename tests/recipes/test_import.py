from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from outrider.errors import InvalidInput
from outrider.recipes.imported import Imported
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


def test_an_engine_older_than_its_source_asks_for_is_refused() -> None:
    data = _vllm()
    data["model"]["min_vllm_version"] = "0.40.0"
    with pytest.raises(InvalidInput, match=r"asks for vLLM 0\.40\.0") as refused:
        read_vllm(data, day=DAY, version="0.32.0")
    assert "--engine-version 0.40.0" in refused.value.remedy
    (document,) = read_vllm(data, day=DAY, version="0.40.1").recipes
    assert document["engine"]["version"] == "0.40.1"


def _changed(data: Any) -> Iterator[Any]:
    """The data with each of its parts, one at a time, something else."""
    yield from (None, 0, -1.5, True, "", "x", [], [1], {}, {"a": [None]})
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, inner in list(items):
        for other in _changed(inner):
            copied = data.copy()
            copied[key] = other
            yield copied


def _read(make: Callable[[], Imported]) -> bool:
    """Whether it was imported; all that may go wrong is an error with a remedy. What is no recipe ``lint`` refuses."""
    try:
        found = make()
    except InvalidInput:
        return False
    for document in found.recipes:
        yaml.safe_dump(document)
    return all(isinstance(line, str) for line in (*found.unread, *found.left_out))


def test_no_shape_of_a_vllm_file_is_a_crash() -> None:
    read = [_read(partial(read_vllm, data, day=DAY, version="0.32.0")) for data in _changed(_vllm())]
    assert any(read) and not all(read)


@pytest.mark.parametrize("which", ["the model's file", "its figures"])
def test_no_shape_of_a_cookbook_file_is_a_crash(which: str) -> None:
    config, figures = _sglang(), _sglang("sglang-small-benchmarks.jsx")
    changed = config if which == "the model's file" else figures
    read = []
    for data in _changed(read_literal(changed)):
        text = f"export const x = {json.dumps(data)};"
        texts = (text, figures) if changed is config else (config, text)
        read.append(_read(partial(read_sglang, texts[0], day=DAY, version="0.5.23", benchmarks=texts[1])))
    assert any(read) and not all(read)


@pytest.mark.parametrize(
    "said", ["1", "[]", '{"method": ["mtp"]}', '{"method": "mtp", "num_speculative_tokens": "x"}', '{"method": 1}']
)
def test_a_drafter_that_cannot_be_read_is_left_out(said: str) -> None:
    data = _vllm()
    data["recommended_command"]["argv"] += ["--speculative-config", said]
    found = read_vllm(data, day=DAY, version="0.32.0")
    assert found.left_out == [f"qwen3-6-27b/vllm-2xh200-fp8: --speculative-config {said}"]


def test_a_curve_is_of_one_kind_of_traffic_and_says_which() -> None:
    figures = _sglang("sglang-small-benchmarks.jsx")
    found = read_sglang(_sglang(), day=DAY, version="0.5.23", benchmarks=figures)
    assert found.recipes[0]["workload"] == {"name": "random", "input_tokens": 8192, "output_tokens": 1024}
    other = figures.replace("isl: 8192, osl: 1024, max_concurrency: 1 ", "isl: 1024, osl: 1024, max_concurrency: 1 ")
    found = read_sglang(_sglang(), day=DAY, version="0.5.23", benchmarks=other)
    assert [point["concurrency"] for point in found.recipes[0]["capacity_curve"]] == [16]
    assert "1 of its loads, of other traffic" in " ".join(found.left_out)


def test_a_long_literal_is_read_at_once() -> None:
    words = ", ".join(f"w{number}: {number}" for number in range(40_000))
    assert len(read_literal(f"export const x = {{{words}}};")) == 40_000


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


def test_a_field_of_another_kind_is_named() -> None:
    data = _vllm()
    data["variants"]["default"]["vram_minimum_gb"] = "much"
    with pytest.raises(InvalidInput) as caught:
        read_vllm(data, day=DAY, version="0.32.0")
    assert "variants.default.vram_minimum_gb = 'much'" in (caught.value.why or "")
