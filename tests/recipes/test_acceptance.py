"""Which acceptance length a plan counts on: whose figure, for which workload, and that the plan says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.recipes.acceptance import ASSUMED, expected
from outrider.recipes.bound import break_even
from outrider.recipes.library import Catalog, load_catalog
from outrider.recipes.plan import Plan
from outrider.recipes.planner import plan
from outrider.recipes.schema import BreakEven, Recipe, Speculation
from outrider.spec.endpoint import parse
from outrider.spec.workload import Workload
from tests.recipes.inventories import INVENTORIES

SHIPPED = load_catalog([])
CPU = SHIPPED.get("smollm2-135m-instruct/vllm-cpu")
MEASURED = SHIPPED.get("glm-5-2/sglang-8xh200-fp8-latency")
RESULTS = Path(__file__).parents[2] / "benchmarks"


def planned(recipe: Recipe, inventory: str, **spec: Any) -> Plan:
    return plan(parse({"model": recipe.model.id, **spec}), INVENTORIES[inventory], Catalog([recipe], ["a test"]))


def drafter(made: Plan) -> str:
    """What the plan says of its choice of a drafter."""
    one = next(decision for decision in made.decisions if decision.choice == "drafter")
    return "\n".join((one.reason, *one.notes))


def test_a_workload_of_no_kind_is_planned_with_the_least_of_what_was_measured() -> None:
    made = planned(CPU, "CPU")
    least = min(one.acceptance_length for one in CPU.drafters[0].slices)
    assert made.speculation.method == "dflash"
    assert made.prediction is not None and made.prediction.acceptance_length == least
    for text in (drafter(made), made.prediction.basis):
        assert f"{least:.3g}, the least measured" in text
        assert all(one.name in text for one in CPU.drafters[0].slices)


def test_structured_output_is_planned_with_what_was_measured_of_it() -> None:
    made = planned(CPU, "CPU", workload={"structured_output": True})
    fitting = [one for one in CPU.drafters[0].slices if one.structured]
    assert made.prediction is not None
    assert made.prediction.acceptance_length == min(one.acceptance_length for one in fitting)
    assert "for structured output (json 4.74, json said again 4.16)" in drafter(made)
    assert "questions" not in drafter(made)


def test_what_the_recipe_says_of_prompts_written_otherwise_was_measured() -> None:
    found = json.loads((RESULTS / "drafter/results/other_prompts.json").read_text())
    tau = {one["slice"]: one["tau"]["value"] for one in found["slices"]}
    slices = {one.name: one.acceptance_length for one in CPU.drafters[0].slices}
    assert slices["questions"] == pytest.approx(tau["chat"], abs=0.005)
    assert slices["json said again"] == pytest.approx(tau["json"], abs=0.005)


def test_auto_leaves_a_drafter_off_at_a_load_where_the_tau_counted_on_does_not_pay() -> None:
    first, *others = CPU.drafters
    points = tuple(BreakEven(concurrency=load, acceptance_length=tau) for load, tau in ((1, 1.8), (2, 2.4)))
    dear = CPU.model_copy(update={"drafters": (first.model_copy(update={"break_even": points}), *others)})
    plain = planned(dear, "CPU", workload={"concurrency": 2})
    assert plain.speculation.method == "off"
    assert "pays from τ 2.4 with 2 in flight, and only 2.08 can be counted on" in drafter(plain)
    structured = planned(dear, "CPU", workload={"concurrency": 2, "structured_output": True})
    assert structured.speculation.method == "dflash"
    named = planned(dear, "CPU", workload={"concurrency": 2}, drafter=CPU.speculation.drafter)
    assert named.speculation.method == "dflash" and "it pays from τ 2.4 only" in drafter(named)
    assert "only" not in drafter(planned(dear, "CPU", workload={"concurrency": 1}))
    assert planned(CPU, "CPU", workload={"concurrency": 2}).speculation.method == "dflash", "it pays there as measured"


@pytest.mark.parametrize("word", ["ngram", "off"])
def test_a_curve_is_of_the_drafter_it_was_measured_with(word: str) -> None:
    own = planned(MEASURED, "8×H200")
    assert own.speculation.method == "mtp"
    assert own.prediction is not None and own.prediction.source == "curve"
    assert planned(MEASURED, "8×H200", drafter="mtp").prediction == own.prediction
    other = planned(MEASURED, "8×H200", drafter=word)
    assert other.prediction is not None and other.prediction.source == "roofline" and other.expected is None


def test_another_drafters_tau_is_not_borrowed() -> None:
    recipe = SHIPPED.get("qwen3-5-397b-a17b/sglang-8xh200-bf16-latency")
    assert recipe.speculation.method == "mtp"
    seen = min(one.acceptance_length for one in recipe.observations if one.acceptance_length)
    assert expected(recipe, recipe.speculation, Workload(), own=True).length == seen
    ngram = Speculation(method="ngram", reason="a test")
    found = expected(recipe, ngram, Workload(), own=False)
    assert (found.length, found.known) == (ASSUMED, False) and "nobody says" in found.source
    named = Speculation(method="dflash", drafter="hf:someone/else", quantization="none", reason="a test")
    assert expected(CPU, named, Workload(), own=False).length == ASSUMED


def test_an_acceptance_length_is_never_more_than_can_be() -> None:
    one = CPU.speculation.model_copy(update={"tokens": 1})
    found = expected(CPU, one, Workload(structured_output=True), own=True)
    assert found.length == 2 and "2 tokens at most" in found.source
    assert expected(CPU, Speculation(method="off", reason="a test"), Workload(), own=True).length == 1


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_what_the_recipes_say_of_the_shipped_drafter_on_a_gpu_was_measured(engine: str) -> None:
    rows = json.loads((RESULTS / "drafter/results/gpu.json").read_text())["rows"]
    measured = {row["slice"]: row for row in rows if row["engine"] == engine}
    recipe = SHIPPED.get(f"smollm2-135m-instruct/{engine}-h200-bf16")
    (option,) = recipe.drafters
    said = {one.name: one for one in option.slices if one.itl_over_none is not None}
    assert said.keys() == measured.keys()
    for name, row in measured.items():
        assert said[name].acceptance_length == pytest.approx(row["tau_engine"], abs=0.006)
        assert said[name].itl_over_none == pytest.approx(row["decode_ms_over_none"], abs=0.006)
    one, many = (point.acceptance_length for point in option.break_even)
    assert one == pytest.approx(max(r["tau_engine"] * r["decode_ms_over_none"] for r in measured.values()), abs=0.05)
    needed = max(row["tau_engine"] / row["output_tps_at_once_over_none"] for row in measured.values())
    assert many == pytest.approx(needed, abs=0.05)


def test_what_drafting_costs_is_what_was_measured_where_it_was() -> None:
    """Drafting is faster by as much as τ is above the break-even; a computed step of 8 tokens would say otherwise."""
    itl = {}
    for word in ("auto", "off"):
        made = planned(CPU, "CPU", workload={"concurrency": 1}, drafter=word).prediction
        assert made is not None and made.itl is not None
        itl[word] = made.itl
        assert ("as it was measured" in made.basis) is (word == "auto")
    assert itl["off"] / itl["auto"] == pytest.approx(2.08 / 1.8, rel=0.01)


def test_the_break_even_is_of_as_many_drafts() -> None:
    recipe = SHIPPED.get("qwen3-8b/sglang-h200-bf16")
    assert break_even(recipe, "dflash", 32, 7) == 1.74
    assert break_even(recipe, "dflash", 32, 15) == 2.77
    assert break_even(recipe, "dflash", 32, 3) in (1.74, 2.77)
    assert break_even(recipe, "eagle3", 32, 7) is None
