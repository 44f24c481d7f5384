"""What is tried: blocks, threads, slots; and a plan with a setting in place of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrider.app.source import describe
from outrider.recipes.plan import Plan
from outrider.recipes.render import render
from outrider.recipes.schema import DrafterOption, Recipe, Speculation
from outrider.tuning.settings import Stage, blocks, candidates, changed_plan, present, value_of
from tests.tuning.world import job


def labels(
    stage: Stage,
    plan: Plan,
    recipe: Recipe,
    *,
    cores: int = 4,
    concurrency: int = 1,
    methods: tuple[str, ...] | None = None,
    trained: dict[str, int] | None = None,
) -> list[str]:
    found = candidates(
        stage,
        present(plan),
        plan=plan,
        recipe=recipe,
        cores=cores,
        concurrency=concurrency,
        methods=methods,
        trained=trained,
    )
    return [setting.label for setting in found]


@pytest.mark.parametrize(
    ("method", "trained", "tokens"),
    [
        ("dflash", 15, [1, 3, 7, 15]),
        ("dflash", 9, [1, 3, 7, 9]),
        ("dflash", None, [1, 3, 7]),
        ("eagle3", 3, [1, 3]),
        ("mtp", 1, [1]),
        ("ngram", 64, [2, 4, 8]),
    ],
)
def test_blocks_of_2_4_8_up_to_the_trained_one(method: str, trained: int | None, tokens: list[int]) -> None:
    assert blocks(method, trained) == tokens


def test_threads_are_powers_of_two_and_all_cores() -> None:
    work = job()
    assert labels("threads", work.plan, work.recipe, cores=6) == [
        "speculation off",
        *(f"threads={count}, speculation off" for count in (2, 4, 6)),
    ]
    gpu = work.recipe.model_copy(update={"hardware": work.recipe.hardware.model_copy(update={"kind": "gpu"})})
    assert labels("threads", work.plan, gpu) == ["speculation off"]


def test_what_stands_is_not_tried_twice() -> None:
    work = job(engine="vllm", recipe="smollm2-135m-instruct/vllm-cpu")
    assert work.plan.speculation.tokens == 7
    found = labels("speculation", work.plan, work.recipe)
    others = ["off", "dflash block 2", "dflash block 4", "ngram 2", "ngram 4", "ngram 8"]
    assert found == ["speculation dflash block 8", *(f"speculation {other}" for other in others)]


def test_llamacpp_tries_a_drafter_that_is_a_gguf_file() -> None:
    work = job(drafter="off")
    option = DrafterOption(method="dflash", drafter="path:/a.gguf", quantization="Q8_0", tokens=7, source="a test")
    recipe = work.recipe.model_copy(update={"drafters": (option,)})
    found = labels("speculation", work.plan, recipe, methods=("dflash",))
    assert found == ["speculation off", *(f"speculation dflash block {block}" for block in (2, 4, 8))]


def test_a_drafter_of_the_recipe_is_tried_in_every_block() -> None:
    work = job(engine="vllm", recipe="smollm2-135m-instruct/vllm-cpu", drafter="off")
    option = DrafterOption(method="dflash", drafter="hf:a/b", quantization="none", tokens=15, source="a test")
    recipe = work.recipe.model_copy(update={"drafters": (option,)})
    assert labels("speculation", work.plan, recipe, methods=("off", "dflash")) == [
        "speculation off",
        *(f"speculation dflash block {block}" for block in (2, 4, 8, 16)),
    ]


def test_a_plan_that_drafts_less_than_the_drafter_was_trained_for_tries_its_whole_block() -> None:
    """The plan, or an earlier tuning's recipe, may name a shorter block; the drafter's files know the longest."""
    work = job(engine="vllm", recipe="smollm2-135m-instruct/vllm-cpu")
    drafter = str(work.plan.speculation.drafter)
    short = work.plan.speculation.model_copy(update={"tokens": 1})
    made = work.plan.model_copy(update={"speculation": short})
    assert labels("speculation", made, work.recipe, methods=("dflash",)) == [
        f"speculation dflash block {block}" for block in (2, 4, 8)
    ]
    first = work.recipe.drafters[0].model_copy(update={"method": "dflash", "drafter": drafter, "tokens": 1})
    tuned = work.recipe.model_copy(update={"drafters": (first, *work.recipe.drafters)})
    off = job(engine="vllm", recipe="smollm2-135m-instruct/vllm-cpu", drafter="off").plan
    assert labels("speculation", off, tuned, methods=("dflash",), trained={drafter: 15})[1:] == [
        f"speculation dflash block {block}" for block in (2, 4, 8, 16)
    ]


def test_slots_near_the_workloads_concurrency_within_the_recipes_limit() -> None:
    work = job()
    assert work.recipe.limits.max_concurrency == 4
    assert labels("slots", work.plan, work.recipe, concurrency=2)[1:] == [
        "slots=1, speculation off",
        "slots=2, speculation off",
    ]


def test_a_drafter_set_by_flags_gives_way_to_what_is_tried() -> None:
    """llama.cpp's own names would win over ``speculation``."""
    flags = {"speculative.types": "ngram-simple", "speculative.ngram_simple.size_m": 40}
    work = job(flags=flags)
    stands, *others = candidates(
        "speculation", present(work.plan), plan=work.plan, recipe=work.recipe, cores=1, concurrency=1
    )
    assert stands.by_flags and not stands.plain and stands.drafting == "by own flags"
    assert [setting.drafting for setting in others] == ["off", "ngram 2", "ngram 4", "ngram 8"]
    for setting in others:
        assert not [flag for flag in changed_plan(work.plan, setting).flags if flag.name.startswith("speculative.")]


def test_the_plan_of_a_setting_renders_and_says_why(tmp_path: Path) -> None:
    work = job()
    setting = present(work.plan).with_flag("threads", 3)
    chosen = Speculation(method="ngram", tokens=4, reason="tried")
    made = changed_plan(work.plan, type(setting)(setting.flags, chosen), "it was faster")
    assert value_of(work.plan, setting, "threads") == 3 and value_of(work.plan, setting, "slots") == 4
    file = tmp_path / "serve.py"
    file.write_text(render(made, version="0"))
    assert "# it was faster\n    threads=3," in file.read_text()
    flags = describe(file)["engine"]["flags"]
    assert (flags["threads"], flags["speculation"]["method"], flags["speculation"]["tokens"]) == (3, "ngram", 4)


def test_more_slots_hold_more_requests() -> None:
    work = job()
    assert changed_plan(work.plan, present(work.plan).with_flag("slots", 2)).server.max_concurrency == 2
