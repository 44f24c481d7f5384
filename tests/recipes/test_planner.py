"""Every choice with its reason; what cannot be is refused with the way out."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from outrider.engines.llamacpp import LlamaCpp
from outrider.engines.llamacpp_flags import encoded
from outrider.engines.sglang import SGLang
from outrider.engines.vllm import VLLM
from outrider.errors import InvalidInput, InvalidRecipe, InvalidSpec, ObjectiveUnreachable, RecipeNotFound, UnknownModel
from outrider.recipes.explain import Line, explain
from outrider.recipes.flags import LLAMACPP_ARGUMENTS, SGLANG_ARGUMENTS, VLLM_ARGUMENTS, FlagKind
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
    made = planned(regions={"routing": "eu"}, resources={"cpu": 0.5})
    assert all(decision.reason for decision in made.decisions)
    assert all(flag.reason for flag in made.flags)
    assert {ignored.field for ignored in made.ignored} == {"regions.routing", "resources.cpu"}
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


def test_how_fast_a_prompt_is_read_comes_from_the_lightest_load() -> None:
    curve = load_catalog().get("smollm2-135m-instruct/llamacpp-cpu")
    first = curve.capacity_curve[0]
    assert first.ttft_p50 is not None and curve.workload.input_tokens is not None
    assert planned().prefill_rate == pytest.approx(curve.workload.input_tokens / first.ttft_p50, abs=0.1)
    facts = ModelFacts(format="gguf", architecture="llama", source="header", file_bytes=10**8, context_length=2048)
    assert planned(facts=facts, model="path:/models/mine.gguf").prefill_rate is None


def test_what_is_set_of_routing_wins_and_is_recorded() -> None:
    made = planned(routing={"ttft_penalty": "2s", "prefill_rate": 300})
    assert (made.prefill_rate, made.ttft_penalty) == (300, 2.0)
    said = {one.choice: (one.value, one.reason) for one in made.decisions}
    assert said["routing.ttft_penalty"] == ("2", "set by you")
    assert planned().ttft_penalty is None
    with pytest.raises(InvalidSpec, match="ttft_penalty"):
        planned(routing={"ttft_penalty": -1})


def test_what_does_not_fit_says_how_much_is_missing() -> None:
    small = MACHINE.model_copy(update={"memory_bytes": 2**28})
    with pytest.raises(InvalidInput, match="MiB more than this machine has"):
        planned(small)


@pytest.mark.parametrize("spec", [{"engine": "sglang"}, {"drafter": "mtp"}])
def test_what_no_recipe_can_do_is_refused_with_the_reason(spec: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        planned(**spec)
    assert caught.value.why and caught.value.remedy


def test_a_recipe_of_the_user_comes_first(tmp_path: Path) -> None:
    text = (SHIPPED / "smollm2.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text.replace("version: 2\nmodel", "version: 7\nmodel"))
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


def test_an_unfit_context_names_the_largest_that_fits() -> None:
    small = MACHINE.model_copy(update={"memory_bytes": 800 * 2**20})
    with pytest.raises(InvalidInput) as caught:
        planned(small)
    found = re.search(r"flags.context to (\d+)", caught.value.remedy or "")
    assert found
    context = int(found[1])
    assert planned(small, flags={"context": context}).server.memory is not None
    with pytest.raises(InvalidInput):
        planned(small, flags={"context": context + 256})


@pytest.mark.parametrize("mib", range(200, 2000, 150))
def test_more_memory_never_turns_yes_into_no(mib: int) -> None:
    def fits(amount: int) -> bool:
        try:
            planned(MACHINE.model_copy(update={"memory_bytes": amount * 2**20}))
        except InvalidInput:
            return False
        return True

    assert fits(mib + 150) or not fits(mib)


def test_every_bad_flag_is_named_at_once() -> None:
    with pytest.raises(InvalidSpec) as caught:
        planned(flags={"contxt": 512, "threads": "many", "slots": 0, "context": 9000, "embeddings": 1})
    found = {problem["field"]: problem for problem in caught.value.problems}
    assert set(found) == {"flags.contxt", "flags.threads", "flags.slots", "flags.context", "flags.embeddings"}
    assert found["flags.contxt"]["nearest"] == "context"


@pytest.mark.parametrize(
    ("name", "value", "nearest"),
    [
        ("cache_type_k", "q8_1", "q8_0"),
        ("flash_attention", "enable", "enabled"),
        ("speculative.types", "none,ngram-simpel", "ngram_simple"),
        ("numa", "7", None),
    ],
)
def test_a_word_that_llamacpp_does_not_allow_is_refused_by_the_plan(name: str, value: str, nearest: str | None) -> None:
    with pytest.raises(InvalidSpec, match="allowed: ") as caught:
        planned(flags={name: value})
    assert caught.value.problems[0].get("nearest") == nearest


@pytest.mark.parametrize(("name", "value"), [("cache_type_k", "Q8-0"), ("speculative.types", "ngram_simple, none")])
def test_a_word_is_read_as_llamacpp_reads_it(name: str, value: str) -> None:
    flags = {flag.name: flag.value for flag in planned(flags={name: value}).flags}
    assert flags[name] == value and encoded({name: value})


def test_the_objective_decides_the_target_by_the_curve() -> None:
    curve = load_catalog([]).get("smollm2-135m-instruct/llamacpp-cpu").capacity_curve
    assert planned().server.target_concurrency == curve[-1].concurrency
    bound = curve[0].ttft_p95
    assert bound is not None
    tight = planned(objective={"ttft": bound * 1.01})
    assert tight.server.target_concurrency == curve[0].concurrency
    assert tight.expected == curve[0]
    with pytest.raises(ObjectiveUnreachable, match="lightest") as caught:
        planned(objective={"ttft": 0.001})
    assert caught.value.details["best"]["ttft"] == curve[0].ttft_p50
    assert caught.value.details["recipe"] == "smollm2-135m-instruct/llamacpp-cpu"


def test_weights_of_the_user_replace_the_sources_and_are_not_pinned() -> None:
    made = planned(weights="hf:me/tuned@main#x.gguf")
    assert made.weights.sources == ("hf:me/tuned@main#x.gguf",)
    assert made.weights.sha256 is None
    (decision,) = [d for d in made.decisions if d.choice == "weights"]
    assert "not pinned" in decision.reason and decision.rejected


def test_all_sources_of_the_shipped_recipe_are_one_pinned_file() -> None:
    made = planned()
    assert [source.partition(":")[0] for source in made.weights.sources] == ["package", "hf"]
    assert made.weights.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def test_measured_needs_its_evidence(tmp_path: Path) -> None:
    text = (SHIPPED / "smollm2.yaml").read_text()
    kept = [line for line in text.splitlines() if not line.startswith("  command:")]
    (tmp_path / "mine.yaml").write_text("\n".join(kept))
    with pytest.raises(InvalidRecipe, match="measured needs when, tool, command and machine"):
        load_catalog([tmp_path])


@pytest.mark.parametrize(
    ("engine", "flags"), [(LlamaCpp, LLAMACPP_ARGUMENTS), (VLLM, VLLM_ARGUMENTS), (SGLang, SGLANG_ARGUMENTS)]
)
def test_flags_are_the_engines_arguments(engine: type, flags: dict[str, FlagKind]) -> None:
    apart = {"self", "weights", "environment", "warm_up", "extra", "speculation", "adapters", "arguments"}
    assert set(flags) == set(inspect.signature(engine).parameters) - apart
