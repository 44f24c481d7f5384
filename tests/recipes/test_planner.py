"""Every choice with its reason; what cannot be is refused with the way out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.errors import InvalidInput, InvalidRecipe, InvalidSpec, RecipeNotFound, UnknownModel
from outrider.recipes.explain import Line, explain
from outrider.recipes.library import SHIPPED, load_catalog
from outrider.recipes.plan import Plan
from outrider.recipes.planner import plan
from outrider.spec.endpoint import parse
from outrider.spec.facts import ModelFacts
from outrider.spec.inventory import Inventory

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
MACHINE = Inventory(cores=2, memory_bytes=8 * 2**30, disk_free_bytes=2**40)


def planned(machine: Inventory = MACHINE, facts: ModelFacts | None = None, **spec: object) -> Plan:
    return plan(parse({"model": MODEL, **spec}), machine, load_catalog([]), facts)


def test_a_plan_survives_json() -> None:
    made = planned()
    assert Plan.model_validate(json.loads(made.model_dump_json())) == made


def test_every_choice_has_a_reason_and_is_explained() -> None:
    made = planned(regions={"routing": "eu"}, resources={"gpu": "H200", "cpu": 0.5})
    assert all(decision.reason for decision in made.decisions)
    assert all(flag.reason for flag in made.flags)
    assert {ignored.field for ignored in made.ignored} == {"regions.routing", "resources.gpu", "resources.cpu"}
    assert all(ignored.reason for ignored in made.ignored)
    text = "\n".join(_texts(explain(made)))
    for decision in made.decisions:
        assert decision.reason in text


def _texts(line: Line) -> list[str]:
    return [line.text, *(text for child in line.under for text in _texts(child))]


def test_flags_set_by_hand_win_and_are_recorded() -> None:
    made = planned(flags={"context": 512})
    assert {flag.name: flag.value for flag in made.flags}["context"] == 512
    assert any(decision.choice == "flag context" for decision in made.decisions)


def test_an_unknown_flag_names_the_known() -> None:
    with pytest.raises(InvalidSpec, match="contxt"):
        planned(flags={"contxt": 512})


def test_an_unknown_model_says_what_was_tried_and_what_is_near() -> None:
    with pytest.raises(UnknownModel) as caught:
        planned(model="HuggingFaceTB/SmolLM2-135M-Instrukt")
    assert MODEL in (caught.value.remedy or "")
    assert "recipes" in (caught.value.remedy or "")
    assert caught.value.details["tried"]


def test_a_file_without_a_recipe_is_planned_from_its_facts() -> None:
    facts = ModelFacts(format="gguf", architecture="llama", source="header", file_bytes=10**8, context_length=2048)
    made = planned(facts=facts, model="path:/models/mine.gguf")
    assert made.provenance.status == "estimated"
    assert made.weights.sources == ("path:/models/mine.gguf",)
    assert made.endpoint == "mine"


def test_what_does_not_fit_says_how_much_is_missing() -> None:
    small = MACHINE.model_copy(update={"memory_bytes": 2**28})
    with pytest.raises(InvalidInput, match="GiB more than there are"):
        planned(small)


@pytest.mark.parametrize("spec", [{"engine": "vllm"}, {"drafter": "ngram"}])
def test_what_no_recipe_can_do_is_refused_with_the_reason(spec: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        planned(**spec)
    assert caught.value.why and caught.value.remedy


def test_a_recipe_of_the_user_comes_first(tmp_path: Path) -> None:
    text = (SHIPPED / "smollm2.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text.replace("version: 1\nmodel", "version: 7\nmodel"))
    assert load_catalog([tmp_path]).get("smollm2-135m-instruct/llamacpp-cpu").version == 7


def test_a_bad_recipe_names_file_and_fields(tmp_path: Path) -> None:
    text = (SHIPPED / "smollm2.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text.replace("precision: Q4_1", "precison: Q4_1"))
    with pytest.raises(InvalidRecipe) as caught:
        load_catalog([tmp_path])
    assert "mine.yaml" in str(caught.value)
    assert "precison" in str(caught.value) and "precision" in str(caught.value)


def test_an_unknown_recipe_names_the_nearest() -> None:
    with pytest.raises(RecipeNotFound, match="smollm2-135m-instruct/llamacpp-cpu"):
        load_catalog([]).get("smollm2-135m/llamacpp-cpu")
