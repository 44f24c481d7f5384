"""The tree that people read, whole, against golden files; and what it must never hide."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.recipes.explain import explain
from outrider.recipes.library import Catalog, load_catalog
from outrider.recipes.planner import plan
from outrider.spec.endpoint import parse
from outrider.spec.inventory import Inventory
from tests.recipes.inventories import INVENTORIES

GOLDEN = Path(__file__).with_name("golden")
SHIPPED = load_catalog([])
CASES: dict[str, tuple[dict[str, object], str, tuple[str, ...]]] = {
    "moe-on-gpus": (
        {"model": "openai/gpt-oss-120b", "objective": {"itl": 0.02}, "flags": {"context": 32768}},
        "8×H200",
        ("gpt-oss-120b/vllm-h200-mxfp4", "gpt-oss-120b/vllm-2xh100-mxfp4", "gpt-oss-120b/vllm-b200-mxfp4"),
    ),
    "curve-and-drafter": (
        {"model": "Qwen/Qwen3.6-27B", "workload": {"concurrency": 8}},
        "1×H200",
        ("qwen3-6-27b/sglang-h200-fp8-latency", "qwen3-6-27b/vllm-h200-fp8", "qwen3-6-27b/vllm-h200-bf16"),
    ),
    "not-here": (
        {"model": "meta-llama/Llama-3.1-8B-Instruct", "resources": {"gpu": "L40S:1"}},
        "CPU",
        ("llama-3-1-8b-instruct/vllm-l40s-bf16", "llama-3-1-8b-instruct/vllm-h100-bf16"),
    ),
}


def tree(spec: dict[str, object], inventory: Inventory, recipes: tuple[str, ...]) -> str:
    catalog = Catalog([SHIPPED.get(name) for name in recipes], ["the catalog that ships with Outrider"])
    line = explain(plan(parse(spec), inventory, catalog), everything=True)
    return "".join(f"{'  ' * depth}{one.text}\n" for depth, one in line.walk())


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str) -> None:
    spec, inventory, recipes = CASES[name]
    text = tree(spec, INVENTORIES[inventory], recipes)
    golden = GOLDEN / f"{name}.explain.golden"
    assert text == golden.read_text(encoding="utf-8"), "if the change is meant, write the new text there"


def test_everything_considered_is_there_with_memory_speed_and_whose_figures() -> None:
    spec, inventory, recipes = CASES["curve-and-drafter"]
    text = tree(spec, INVENTORIES[inventory], recipes)
    for recipe in recipes:
        assert recipe in text
    assert "(chosen)" in text and "by curve: published" in text and "by roofline:" in text
    assert "MiB needed" in text and "untested" in text


def test_without_it_only_the_decision_is_shown() -> None:
    made = plan(parse({"model": "Qwen/Qwen3-8B"}), INVENTORIES["1×H200"], SHIPPED)
    short = "\n".join(line.text for _, line in explain(made).walk())
    assert "considered" not in short and "speed: " in short


def test_a_speed_that_cannot_be_predicted_is_said_to_be_unknown() -> None:
    recipe = "deepseek-v4-pro/vllm-8xh200-fp8"
    text = tree({"model": "deepseek-ai/DeepSeek-V4-Pro"}, INVENTORIES["8×H200"], (recipe,))
    assert "  speed: unknown\n    cannot be predicted; not known: layers" in text
