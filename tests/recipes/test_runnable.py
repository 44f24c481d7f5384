"""Which recipes a machine can run: the reasons why not, each made by taking one thing from a machine that can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from outrider.recipes.library import SHIPPED, Catalog, read
from outrider.recipes.runnable import Verdict, verdicts
from outrider.recipes.schema import Recipe
from outrider.spec.inventory import Gpu, Inventory

GIB = 2**30
CPU = Inventory(
    cores=2,
    memory_bytes=24 * GIB,
    disk_free_bytes=70 * GIB,
    engines={"llamacpp": "2026.10.11549", "vllm": None, "sglang": None},
)


@pytest.fixture
def recipe() -> Recipe:
    return read(SHIPPED / "smollm2.yaml")[0]


def _one(recipe: Recipe, inventory: Inventory = CPU, **more: Any) -> Verdict:
    (verdict,) = verdicts(inventory, Catalog([recipe], ["test"]), **more)
    return verdict


def _changed(recipe: Recipe, **changes: Any) -> Recipe:
    return Recipe.model_validate(recipe.model_dump() | changes)


def test_what_runs_says_what_it_takes(recipe: Recipe) -> None:
    verdict = _one(recipe)
    assert verdict.runnable and verdict.fix == ""
    assert verdict.memory_bytes is not None
    assert verdict.reason == f"{verdict.memory_bytes / 2**20:,.0f} MiB of memory, 98 MB to download, measured"
    cached = _one(recipe, cached={recipe.weights[0].sha256 or ""})
    assert "weights are here" in cached.reason
    assert "(512 available now)" in _one(recipe, available_bytes=GIB // 2).reason


def test_recipes_for_gpus_are_told_apart_where_there_are_none(recipe: Recipe) -> None:
    gpu = _changed(recipe, hardware={"kind": "gpu", "gpu": "H200", "min_memory_bytes": 0})
    assert _one(gpu).lacks_all_gpus
    small = Gpu(name="NVIDIA L4", memory_bytes=24 * GIB)
    assert not _one(gpu, CPU.model_copy(update={"gpus": (small,)})).lacks_all_gpus
    assert not _one(recipe).lacks_all_gpus


def test_an_engine_that_is_not_there(recipe: Recipe) -> None:
    verdict = _one(recipe, CPU.model_copy(update={"engines": {}}))
    assert not verdict.runnable
    assert "not installed" in verdict.reason and verdict.fix == "pip install 'outrider[cpu]'"


def test_an_environment_of_its_own_brings_the_engine(recipe: Recipe) -> None:
    engine = recipe.engine.model_dump() | {"environment": {"packages": ["xllamacpp"]}}
    own = _changed(recipe, engine=engine)
    assert _one(own, CPU.model_copy(update={"engines": {}})).runnable
    assert _one(own, broken={"llamacpp": "it crashes"}).runnable


def test_an_engine_that_does_not_import(recipe: Recipe) -> None:
    verdict = _one(recipe, broken={"llamacpp": "it was ended by SIGILL"})
    assert not verdict.runnable and "SIGILL" in verdict.reason


def test_too_little_memory_says_what_would_fit(recipe: Recipe) -> None:
    verdict = _one(recipe, CPU.model_copy(update={"memory_bytes": GIB}))
    assert not verdict.runnable
    assert "more than this machine has" in verdict.reason and "flags.context" in verdict.fix


def test_too_little_disk_unless_the_weights_are_here(recipe: Recipe) -> None:
    full = CPU.model_copy(update={"disk_free_bytes": 10**7})
    verdict = _one(recipe, full)
    assert not verdict.runnable
    assert "98 MB" in verdict.reason and "OUTRIDER_CACHE" in verdict.fix
    assert _one(recipe, full, cached={recipe.weights[0].sha256 or ""}).runnable


def test_gpus_that_are_not_there_and_those_that_run_come_first(recipe: Recipe) -> None:
    hardware = {"kind": "gpu", "gpu": "H200", "min_memory_bytes": 20 * GIB}
    gpu = _changed(recipe, id="a/gpu", hardware=hardware)
    first, second = verdicts(CPU, Catalog([gpu, recipe], ["test"]))
    assert (first.recipe, first.runnable, second.recipe) == (recipe.id, True, "a/gpu")
    assert second.reason == "it needs 1 × H200; this machine has 0"
    there = CPU.model_copy(update={"gpus": (Gpu(name="NVIDIA H200", memory_bytes=150754820096),)})
    assert _one(gpu, there).runnable


def test_an_environment_that_cannot_be_is_no_runnable_recipe() -> None:
    recipe = next(one for one in read(SHIPPED / "smollm2.yaml") if one.id.endswith("/vllm-cpu"))
    assert _one(recipe).runnable and _one(recipe).packages == recipe.engine.environment.packages
    asked: list[tuple[str, ...]] = []

    def hindrance(packages: Sequence[str]) -> tuple[str, str]:
        asked.append(tuple(packages))
        return "its environment cannot be built: no torch", "Name an index."

    verdict = _one(recipe, hindrance=hindrance)
    assert (verdict.runnable, verdict.reason) == (False, "its environment cannot be built: no torch")
    assert verdict.fix == "Name an index." and asked == [recipe.engine.environment.packages]
