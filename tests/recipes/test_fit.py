"""Whether replicas fit on GPUs, what is changed so that they do, and what is said where nothing helps."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.errors import InvalidInput
from outrider.recipes.device import of_kind
from outrider.recipes.drafting import NONE, draft
from outrider.recipes.fit import MIB, Load, gpu_fit
from outrider.recipes.gpus import gpu_facts
from outrider.recipes.library import Catalog, load_catalog
from outrider.recipes.planner import plan
from outrider.recipes.schema import Speculation
from outrider.spec.endpoint import parse
from outrider.spec.facts import ModelFacts
from tests.recipes.inventories import INVENTORIES, machine

LLAMA = load_catalog([]).get("llama-3-1-8b-instruct/vllm-h100-bf16").model.facts
LOAD = Load(requests=4, tokens=1280, context=8192)
GIB = 2**30


def fitted(memory_gib: float = 80, count: int = 1, facts: ModelFacts = LLAMA, load: Load = LOAD, **values: Any) -> Any:
    device = of_kind(gpu_facts("H100"), "H100", count, memory=int(memory_gib * GIB))
    return gpu_fit(facts, 16 * GIB, device, load, NONE, values)


def parts(fit: Any) -> dict[str, int]:
    return {part.name: part.bytes for part in fit.parts}


def test_every_part_is_counted_and_the_share_is_what_there_is() -> None:
    found = fitted()
    assert set(parts(found)) == {"weights", "KV cache", "activations", "graphs"}
    assert parts(found)["weights"] == 16 * GIB
    assert parts(found)["KV cache"] == 8192 * 131_072  # one request of the context is more than four of the workload
    assert found.needed == sum(parts(found).values())
    assert found.available == int(80 * GIB * 0.9) - 640 * MIB
    assert fitted(memory_share=0.5).available == 40 * GIB - 640 * MIB
    assert found.missing == 0 and fitted(memory_gib=16).missing > 0


def test_gpus_share_weights_and_heads() -> None:
    one, four = fitted(), fitted(count=4)
    assert parts(four)["weights"] * 4 == parts(one)["weights"]
    assert parts(four)["KV cache"] * 4 == parts(one)["KV cache"]


def test_many_requests_outgrow_one_of_the_context() -> None:
    many = fitted(load=Load(requests=100, tokens=1280, context=8192))
    assert parts(many)["KV cache"] == 100 * 1280 * 131_072
    assert parts(fitted(kv_cache_type="fp8"))["KV cache"] * 2 == parts(fitted())["KV cache"]
    assert parts(fitted(eager=True))["graphs"] == 0


def test_a_drafter_has_weights_and_a_cache() -> None:
    device = of_kind(gpu_facts("H100"), "H100", 1, memory=80 * GIB)
    drafter = draft(Speculation(method="eagle3", tokens=3, reason="a test"), LLAMA)
    found = parts(gpu_fit(LLAMA, 16 * GIB, device, LOAD, drafter, {}))
    assert found["drafter"] == (drafter.parameters or 0) * 2 > 0.4 * GIB
    assert found["drafter's KV cache"] == found["KV cache"] // 32


@pytest.mark.parametrize(
    ("change", "said"),
    [({"layers": None}, "caches"), ({"hidden_size": None}, "width"), ({"vocab_size": None}, "width")],
)
def test_an_unknown_fact_is_named(change: dict[str, Any], said: str) -> None:
    found = fitted(facts=LLAMA.model_copy(update=change))
    assert found.needed is None and said in found.unknown and found.missing == 0


def test_what_cannot_be_computed_is_said_in_the_plan() -> None:
    recipe = load_catalog([]).get("llama-3-1-8b-instruct/vllm-h100-bf16")
    unknown = recipe.model.model_copy(update={"facts": LLAMA.model_copy(update={"layers": None})})
    hardware = recipe.hardware.model_copy(update={"min_memory_bytes": 0})
    catalog = Catalog([recipe.model_copy(update={"model": unknown, "hardware": hardware})], [])
    made = plan(parse({"model": recipe.model.id}), INVENTORIES["1×H100"], catalog)
    reason = next(decision.reason for decision in made.decisions if decision.choice == "memory")
    assert "cannot be computed" in reason and "not known" in reason
    assert made.memory is not None and made.memory.needed is None and made.memory.unknown


def test_too_many_requests_in_flight_are_named_with_how_many_fit() -> None:
    catalog = load_catalog([])
    one = Catalog([catalog.get("llama-3-1-8b-instruct/vllm-h100-bf16")], [])
    workload = {"concurrency": 200, "input_tokens": 7000, "output_tokens": 1000}
    spec = {"model": "meta-llama/Llama-3.1-8B-Instruct", "workload": workload}
    with pytest.raises(InvalidInput, match="MiB more than its GPU") as caught:
        plan(parse(spec), INVENTORIES["1×H100"], one)
    remedy = caught.value.remedy or ""
    slots = int(remedy.partition("flags.slots to ")[2].partition(".")[0])
    assert plan(parse({**spec, "flags": {"slots": slots}}), INVENTORIES["1×H100"], one)
    with pytest.raises(InvalidInput):
        plan(parse({**spec, "flags": {"slots": slots + 1}}), INVENTORIES["1×H100"], one)


def test_a_smaller_precision_and_larger_hardware_are_named() -> None:
    catalog = load_catalog([])
    one = Catalog([catalog.get("qwen3-5-27b/vllm-h100-fp8")], [])
    with pytest.raises(InvalidInput) as caught:
        plan(parse({"model": "Qwen/Qwen3.5-27B"}), INVENTORIES["1×RTX 4090"], one)
    assert "It fits with weights in nvfp4." in (caught.value.remedy or "")
    assert "It fits on 2 × RTX 4090" in (caught.value.remedy or "")
    two = machine("NVIDIA GeForce RTX 4090", 24_564, 2)
    assert plan(parse({"model": "Qwen/Qwen3.5-27B"}), two, one).hardware == "2 × RTX 4090"


def test_a_checkpoint_without_a_recipe_is_planned_from_its_facts() -> None:
    facts = LLAMA.model_copy(
        update={"source": "config.json of mine", "file_bytes": 16 * GIB, "quantisation": "bfloat16"}
    )
    made = plan(parse({"model": "path:/models/mine"}), INVENTORIES["4×L40S"], load_catalog([]), facts)
    assert made.provenance.status == "estimated" and "config.json of mine" in made.provenance.note
    assert made.engine == "vllm" and made.weights.sources == ("path:/models/mine",)
    assert made.environment.packages and made.prediction is not None and made.prediction.source == "roofline"
    assert (
        plan(
            parse({"model": "path:/models/mine", "engine": "sglang"}), INVENTORIES["1×H200"], load_catalog([]), facts
        ).engine
        == "sglang"
    )
