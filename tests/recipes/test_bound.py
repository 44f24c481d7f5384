from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from outrider.models.sources import SHIPPED_DRAFTERS
from outrider.recipes.bound import BoundDrafter, break_even
from outrider.recipes.library import load_catalog
from outrider.recipes.plan import Plan
from outrider.recipes.planner import plan
from outrider.recipes.reading import Files
from outrider.spec.endpoint import Endpoint
from tests.recipes.inventories import INVENTORIES

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
GGUF = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SHIPPED = "outrider:smollm2-135m-instruct-dflash"
MINE = BoundDrafter(
    name="mine",
    reference="path:/drafters/mine",
    method="dflash",
    tokens=7,
    quantization="none",
    acceptance_length=3.1,
    max_context=8192,
)


def planned(bound: dict[str, BoundDrafter] | None = None, **spec: Any) -> Plan:
    endpoint = Endpoint(model=MODEL, name="hello", **spec)
    return plan(endpoint, INVENTORIES["CPU"], load_catalog([]), None, Files(bound=bound or {}))


def why(made: Plan) -> str:
    """What the plan says of its choice of a drafter."""
    return next(one.reason for one in made.decisions if one.choice == "drafter")


def test_auto_drafts_in_vllm_where_the_recipe_says_that_it_pays() -> None:
    made = planned(engine="vllm")
    chosen = made.speculation
    assert (chosen.method, chosen.drafter, chosen.quantization, chosen.tokens) == ("dflash", SHIPPED, "none", 7)
    assert "in bf16 a step of 8 tokens takes less than twice as long as one token" in chosen.reason
    assert why(made).startswith(chosen.reason)
    most = chosen.max_useful_concurrency
    assert most is not None
    few, many = (
        planned(engine="vllm", workload={"concurrency": load, "structured_output": True}) for load in (most, most + 1)
    )
    assert (few.speculation.method, many.speculation.method) == ("dflash", "off")
    assert many.speculation.drafter is None
    assert many.speculation.reason == f"dflash pays up to {most} requests in flight, {most + 1} are expected"
    assert why(many) == many.speculation.reason


def test_auto_stays_off_in_llamacpp_however_good_the_drafter() -> None:
    made = planned(engine="llamacpp")
    assert (made.speculation.method, made.speculation.drafter) == ("off", None)
    assert "verifying 8 tokens costs six times one token in Q4_1 on a CPU" in made.speculation.reason
    assert why(made) == made.speculation.reason
    for length in (3.1, 6.3):
        gguf = replace(MINE, acceptance_length=length, reference="path:/drafters/mine.gguf")
        bound = planned({GGUF: gguf}, engine="llamacpp").speculation
        assert bound.method == "off"
        assert f"pays here from τ 7.10, and its τ is {length:.2f}" in bound.reason
    unknown = planned({GGUF: replace(MINE, acceptance_length=None)}, engine="llamacpp").speculation
    assert unknown.method == "off" and "never measured" in unknown.reason
    perfect = replace(MINE, acceptance_length=7.5, reference="path:/drafters/mine.gguf")
    assert planned({GGUF: perfect}, engine="llamacpp").speculation.method == "dflash"
    directory = planned({GGUF: replace(MINE, acceptance_length=7.5)}, engine="llamacpp").speculation
    assert directory.method == "off" and "drafter export" in directory.reason


def test_the_shipped_drafter_is_worth_it_where_auto_takes_it_and_not_elsewhere() -> None:
    card = json.loads((SHIPPED_DRAFTERS / SHIPPED.partition(":")[2] / "drafter.json").read_text())
    slices = [card["tau"][name] for name in ("chat", "code", "json")]
    for engine, pays in (("vllm", True), ("llamacpp", False)):
        recipe = planned(engine=engine).recipe
        needed = break_even(load_catalog([]).get(recipe), "dflash", 1)
        assert needed is not None and all((tau > needed) is pays for tau in slices)


def test_auto_takes_the_drafter_that_is_bound_to_the_weights() -> None:
    bound = {"hf:HuggingFaceTB/SmolLM2-135M-Instruct": MINE}
    made = planned(bound, engine="vllm").speculation
    assert (made.method, made.drafter, made.tokens) == ("dflash", "path:/drafters/mine", 7)
    assert "mine is bound to these weights, τ 3.10" in made.reason
    assert "counts on τ 3.1, said by the registry of mine" in why(planned(bound, engine="vllm"))
    assert planned({"0" * 64: MINE}, engine="vllm").speculation.drafter == SHIPPED
    assert planned(bound, engine="vllm", drafter="off").speculation.method == "off"


def test_a_bound_drafter_that_does_not_pay_is_left_off() -> None:
    bound = {"hf:HuggingFaceTB/SmolLM2-135M-Instruct": replace(MINE, acceptance_length=1.4)}
    made = planned(bound, engine="vllm").speculation
    assert made.method == "off" and "τ 1.80" in made.reason


@pytest.mark.parametrize(("concurrency", "needed"), [(1, 2.0), (3, 2.0), (4, 3.5), (9, 3.5)])
def test_the_break_even_is_that_of_the_nearest_lighter_load(concurrency: int, needed: float) -> None:
    recipe = load_catalog([]).get("smollm2-135m-instruct/vllm-cpu")
    points = [{"concurrency": 1, "acceptance_length": 2.0}, {"concurrency": 4, "acceptance_length": 3.5}]
    option = recipe.drafters[0].model_validate(recipe.drafters[0].model_dump() | {"break_even": points})
    assert break_even(recipe.model_copy(update={"drafters": (option,)}), "dflash", concurrency) == needed
    assert break_even(recipe, "eagle3", concurrency) is None
