"""The catalog that ships: whole, sourced, and counted in the README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from outrider.recipes.kv import kv_bytes
from outrider.recipes.library import SHIPPED, counts, read, recipe_files, shipped
from outrider.recipes.schema import STATUSES, CapacityPoint, Figures, Observation, Recipe
from outrider.spec.facts import ModelFacts

ROOT = Path(__file__).parents[2]
MODELS = (
    "zai-org/GLM-5.2",
    "Qwen/Qwen3.5-397B-A17B",
    "Qwen/Qwen3.5-122B-A10B",
    "Qwen/Qwen3.5-35B-A3B",
    "Qwen/Qwen3.5-27B",
    "Qwen/Qwen3.5-9B",
    "Qwen/Qwen3.5-4B",
    "Qwen/Qwen3.6-35B-A3B",
    "Qwen/Qwen3.6-27B",
    "Qwen/Qwen3.8-27B",
    "openai/gpt-oss-20b",
    "openai/gpt-oss-120b",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Flash",
    "deepseek-ai/DeepSeek-V4-Pro",
    "moonshotai/Kimi-K2.6",
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.3-70B-Instruct",
    "google/gemma-4-26B-A4B-it",
    "google/gemma-4-31B-it",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16",
    "Qwen/Qwen3-8B",
    "HuggingFaceTB/SmolLM2-135M-Instruct",
)
RECIPES = shipped()
BY_RECIPE = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.id)
_TIMES_AND_RATES = tuple(Figures.model_fields)
_NO_FACTS = ("format", "architecture", "source", "sources", "has_chat_template", "file_bytes")


def test_every_family_that_was_promised_is_there() -> None:
    assert {recipe.model.id for recipe in RECIPES} == set(MODELS)


def test_the_fast_reading_of_the_files_is_the_careful_one() -> None:
    assert list(RECIPES) == [recipe for path in recipe_files(SHIPPED) for recipe in read(path)]
    ids = [recipe.id for recipe in RECIPES]
    assert len(ids) == len(set(ids))


@BY_RECIPE
def test_every_figure_has_a_source(recipe: Recipe) -> None:
    who = recipe.provenance
    if recipe.capacity_curve:
        assert who.status in ("measured", "published")
        assert who.command if who.status == "measured" else who.url.startswith("https://")
    for observation in recipe.observations:
        assert observation.source.startswith("https://")
        assert any(getattr(observation, name) for name in _TIMES_AND_RATES)
    for option in recipe.drafters:
        assert option.source.startswith(("https://", "measured with"))


@BY_RECIPE
def test_nobody_is_left_unmarked(recipe: Recipe) -> None:
    who = recipe.provenance
    assert who.status in STATUSES
    assert who.url.startswith("https://") or who.status == "measured" or who.note
    assert recipe.stale_after is not None
    if who.status == "untested":
        assert not recipe.capacity_curve


@BY_RECIPE
def test_every_fact_has_a_source(recipe: Recipe) -> None:
    facts = recipe.model.facts
    assert facts.source.startswith(("https://", "header of"))
    for name, source in facts.sources.items():
        assert name not in _NO_FACTS
        assert source
    if facts.parameters is not None and "huggingface.co" in facts.source:
        assert facts.sources.get("parameters")  # a config.json does not count its parameters


def _unique_facts() -> dict[str, ModelFacts]:
    return {recipe.model.id: recipe.model.facts for recipe in RECIPES}


def test_one_model_has_one_set_of_facts() -> None:
    def architecture(recipe: Recipe) -> dict[str, object]:
        facts = recipe.model.facts.model_dump(exclude={"quantisation", "sources", "format", "source"})
        return {name: value for name, value in facts.items() if name not in _NO_FACTS}

    for model in MODELS:
        found = [architecture(recipe) for recipe in RECIPES if recipe.model.id == model]
        assert all(facts == found[0] for facts in found[1:]), model


def test_what_no_source_says_is_left_out_and_memory_is_then_not_computed() -> None:
    unknown = {model for model, facts in _unique_facts().items() if kv_bytes(facts, 1) is None}
    assert {"deepseek-ai/DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V4-Pro"} <= unknown


@BY_RECIPE
def test_rates_say_whose_they_are(recipe: Recipe) -> None:
    points: list[CapacityPoint | Observation] = [*recipe.capacity_curve, *recipe.observations]
    for point in points:
        if point.output_tps is not None and point.total_tps is not None:
            assert point.output_tps < point.total_tps
        if point.concurrency and point.itl and point.output_tps:
            # No replica gives more than its requests take; a tenth is what means and rounding may differ by.
            assert point.output_tps <= 1.1 * point.concurrency / point.itl


def _words(readme: str) -> list[int]:
    line = next(line for line in (ROOT / readme).read_text().splitlines() if "<!-- catalog -->" in line)
    return [int(number) for number in re.findall(r"\d+", line)]


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_the_readme_counts_them_apart(readme: str) -> None:
    assert _words(readme) == [len(RECIPES), len(MODELS), *counts(RECIPES).values()]
