"""Every model of the catalog on every inventory: what must hold whatever is chosen."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import InvalidInput, ObjectiveUnreachable
from outrider.recipes import device
from outrider.recipes.device import same_kind
from outrider.recipes.gpus import GpuFacts, gpu_facts
from outrider.recipes.library import load_catalog
from outrider.recipes.plan import Plan
from outrider.recipes.planner import plan
from outrider.spec.endpoint import parse
from outrider.spec.inventory import Inventory
from tests.recipes.inventories import INVENTORIES, MIB, machine

CATALOG = load_catalog([])
MODELS = sorted({recipe.model.id for recipe in CATALOG.all()})
KINDS = [("NVIDIA H100 80GB HBM3", 81_559), ("NVIDIA H200", 143_771), ("NVIDIA L40S", 46_068), ("NVIDIA B200", 183_359)]


def planned(model: str, inventory: Inventory, **spec: object) -> Plan | None:
    try:
        return plan(parse({"model": model, **spec}), inventory, CATALOG)
    except InvalidInput as error:
        assert error.why and error.remedy
        return None


@cache
def on(model: str, name: str) -> Plan | None:
    """The plan of a bare spec, made once."""
    return planned(model, INVENTORIES[name])


@pytest.mark.parametrize("name", INVENTORIES)
@pytest.mark.parametrize("model", MODELS)
def test_what_is_planned_fits_and_says_what_nobody_tested(model: str, name: str) -> None:
    made = on(model, name)
    if made is None:
        return
    memory = made.memory
    assert memory is not None
    assert memory.needed is None or memory.needed <= memory.available
    assert memory.needed is not None or memory.unknown
    assert sum(part.bytes for part in memory.parts) in (0, memory.needed)
    assert not made.obstacles
    recipe = CATALOG.get(made.recipe)
    gpu = recipe.hardware
    own = gpu.kind == "cpu" or (f"{gpu.count} ×" in made.hardware and same_kind(gpu.gpu or "", made.hardware[4:]))
    assert made.provenance.status == recipe.provenance.status if own else made.provenance.status == "untested"
    assert made.provenance.note or made.provenance.url or made.provenance.command
    assert [row.chosen for row in made.considered] == [True] + [False] * (len(made.considered) - 1)
    assert all(row.reason for row in made.considered)


@pytest.mark.parametrize("name", ["1×H100", "8×H200", "8×B200", "4×L40S", "1×RTX 4090"])
def test_something_can_be_planned_on_gpus(name: str) -> None:
    assert sum(on(model, name) is not None for model in MODELS) >= 5


@pytest.mark.parametrize("model", MODELS)
def test_no_machine_at_all_says_what_is_missing_and_what_would_do(model: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        plan(parse({"model": model}), INVENTORIES["none"], CATALOG)
    assert "MiB" in (caught.value.why or "")
    assert "It fits on" in (caught.value.remedy or "") or caught.value.details["needed_bytes"]


@pytest.mark.parametrize("name", INVENTORIES)
@pytest.mark.parametrize("model", MODELS)
def test_the_cheapest_of_its_standing_is_chosen(model: str, name: str) -> None:
    made = on(model, name)
    if made is None or made.prediction is None or made.prediction.usd_per_mtok is None:
        return
    chosen = CATALOG.get(made.recipe)
    for row in made.considered[1:]:
        comparable = (
            (row.provenance == "untested") == (made.provenance.status == "untested")
            and CATALOG.get(row.recipe).profile == chosen.profile
            and row.prediction is not None
            and row.prediction.usd_per_mtok is not None
            and row.memory is not None
            and (row.memory.needed or 0) <= row.memory.available
            and "give up" not in row.reason
        )
        if comparable:
            assert row.prediction and row.prediction.usd_per_mtok
            assert row.prediction.usd_per_mtok >= made.prediction.usd_per_mtok


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    kind=st.sampled_from(KINDS),
    count=st.sampled_from([1, 2, 4, 8]),
    share=st.floats(0.05, 1.0),
    more=st.floats(1.0, 3.0),
    concurrency=st.sampled_from([None, 1, 16, 200]),
)
def test_more_memory_never_turns_yes_into_no(
    model: str, kind: tuple[str, int], count: int, share: float, more: float, concurrency: int | None
) -> None:
    name, mib = kind
    workload = {} if concurrency is None else {"workload": {"concurrency": concurrency}}
    less = planned(model, machine(name, int(mib * share), count), **workload)
    if less is not None:
        assert planned(model, machine(name, int(mib * share * more), count), **workload) is not None


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    kind=st.sampled_from(KINDS),
    fewer=st.sampled_from([1, 2, 4]),
    bound=st.sampled_from([0.002, 0.01, 0.05, 0.5]),
)
def test_more_gpus_never_turn_yes_into_no(model: str, kind: tuple[str, int], fewer: int, bound: float) -> None:
    name, mib = kind
    objective = {"objective": {"itl": bound}}
    if planned(model, machine(name, mib, fewer), **objective) is not None:
        assert planned(model, machine(name, mib, fewer * 2), **objective) is not None


@settings(max_examples=40, deadline=None)
@given(model=st.sampled_from(MODELS), loose=st.floats(0.001, 1.0), tighter=st.floats(0.1, 1.0))
def test_a_looser_objective_never_turns_yes_into_no(model: str, loose: float, tighter: float) -> None:
    def meets(bound: float) -> bool:
        try:
            plan(parse({"model": model, "objective": {"itl": bound}}), INVENTORIES["8×H200"], CATALOG)
        except ObjectiveUnreachable as error:
            assert error.details["best"] is None or error.details["best"]["itl"] > 0
            return False
        return True

    assert meets(loose) or not meets(loose * tighter)


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-8B-Instruct", "openai/gpt-oss-120b", "Qwen/Qwen3.6-27B"])
def test_a_lower_price_never_makes_the_plan_dearer(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = planned(model, INVENTORIES["8×H200"])
    real = gpu_facts

    def cheaper(name: str) -> GpuFacts | None:
        kind = real(name)
        price = kind and kind.usd_per_hour and kind.usd_per_hour / 2
        return kind and kind.model_copy(update={"usd_per_hour": price})

    monkeypatch.setattr(device, "gpu_facts", cheaper)
    after = planned(model, INVENTORIES["8×H200"])
    assert before and after and before.prediction and after.prediction
    assert (after.prediction.usd_per_mtok or 0) <= (before.prediction.usd_per_mtok or 0)


def test_a_gpu_that_is_not_here_is_planned_and_not_started() -> None:
    made = planned("openai/gpt-oss-120b", INVENTORIES["CPU"], resources={"gpu": "H200:1"})
    assert made is not None
    assert made.hardware == "1 × H200" and made.server.gpu == "H200:1"
    assert made.obstacles == ("it needs 1 × H200; this machine has 0",)


def test_what_is_set_by_hand_wins_and_is_recorded() -> None:
    machine_ = INVENTORIES["8×H200"]
    made = planned("openai/gpt-oss-120b", machine_, resources={"gpu": "H200:4"}, flags={"context": 4096})
    assert made is not None
    assert made.hardware == "4 × H200" and made.provenance.status == "untested"
    values = {flag.name: flag.value for flag in made.flags}
    assert values["gpus"] == 4 and values["context"] == 4096
    reasons = {decision.choice: decision.reason for decision in made.decisions}
    assert reasons["flag context"] == "set by you" and "asked for by you" in reasons["hardware"]
    named = planned("openai/gpt-oss-120b", machine_, recipe="gpt-oss-120b/vllm-h200-mxfp4")
    assert named is not None and "you named it" in named.decisions[0].reason


def test_speculation_is_off_where_it_does_not_pay() -> None:
    recipe = CATALOG.get("qwen3-6-27b/sglang-h200-fp8-latency")
    drafting = recipe.speculation.model_copy(update={"max_useful_concurrency": 16})
    catalog = type(CATALOG)([recipe.model_copy(update={"speculation": drafting})], [])
    few = plan(parse({"model": recipe.model.id, "workload": {"concurrency": 8}}), INVENTORIES["1×H200"], catalog)
    many = plan(parse({"model": recipe.model.id, "workload": {"concurrency": 64}}), INVENTORIES["1×H200"], catalog)
    assert few.speculation.method == "mtp"
    assert many.speculation.method == "off" and "16" in many.speculation.reason


def test_a_price_ceiling_is_an_objective() -> None:
    with pytest.raises(ObjectiveUnreachable, match="an hour"):
        plan(parse({"model": "openai/gpt-oss-120b", "objective": {"usd_per_hour": 1}}), INVENTORIES["8×H200"], CATALOG)
    made = planned("openai/gpt-oss-120b", INVENTORIES["8×H200"], objective={"usd_per_hour": 6})
    assert made is not None and made.hardware == "1 × H200"


def test_a_context_that_does_not_fit_is_shortened_unless_set_by_hand() -> None:
    small = machine("NVIDIA GeForce RTX 4090", 24_564, 1)
    model = "meta-llama/Llama-3.1-8B-Instruct"
    made = planned(model, small)
    assert made is not None
    context = next(flag for flag in made.flags if flag.name == "context")
    assert int(context.value) < 131_072 and "do not fit" in context.reason
    with pytest.raises(InvalidInput, match="MiB more than its GPU") as caught:
        plan(parse({"model": model, "flags": {"context": 131_072}}), small, CATALOG)
    assert "It fits" in (caught.value.remedy or "")
    assert caught.value.details["needed_bytes"] > 20_000 * MIB


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"resources": {"gpu": "T4"}}, "nothing is known of the GPU T4; known: H100"),
        ({"resources": {"gpu": "H20"}}, "nothing is known of the GPU H20 (did you mean H200?)"),
        ({"resources": {"gpu": "H200:3"}}, "64 heads cannot be divided among 3 GPUs"),
        ({"resources": {"gpu": "H200:2"}, "flags": {"gpus": 4}}, "flags.gpus is 4, resources.gpu H200:2"),
    ],
)
def test_hardware_that_cannot_be_is_refused_with_the_reason(spec: dict[str, object], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        plan(parse({"model": "openai/gpt-oss-20b", **spec}), INVENTORIES["CPU"], CATALOG)
    assert said in (caught.value.why or "")


def test_who_asks_for_throughput_gets_the_recipe_for_it_whatever_the_wait() -> None:
    model = "Qwen/Qwen3.6-35B-A3B"
    fast, patient = planned(model, INVENTORIES["1×H200"]), planned(model, INVENTORIES["1×H200"], profile="throughput")
    assert fast and patient and patient.prediction
    assert CATALOG.get(patient.recipe).profile == "throughput" != CATALOG.get(fast.recipe).profile
    assert (patient.prediction.ttft or 0) > 10


def test_a_recipe_from_facts_takes_weights_that_such_a_gpu_computes_with() -> None:
    model = "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16"
    blackwell = planned(model, INVENTORIES["8×B200"], engine="sglang")
    hopper = planned(model, machine("NVIDIA H100 80GB HBM3", 81_559, 8), engine="sglang")
    assert blackwell and blackwell.weights.sources[0].endswith("-NVFP4")
    assert hopper and not hopper.weights.sources[0].endswith("-NVFP4")


def test_a_cpu_whose_memory_nobody_measured_is_said_to_be_one() -> None:
    made = planned("HuggingFaceTB/SmolLM2-135M-Instruct", INVENTORIES["CPU"], engine="vllm")
    assert made and made.prediction and "nobody measured on this machine" in made.prediction.basis
    measured = INVENTORIES["CPU"].model_copy(update={"memory_bandwidth": 2e10})
    made = planned("HuggingFaceTB/SmolLM2-135M-Instruct", measured, engine="vllm")
    assert made and made.prediction and "nobody measured" not in made.prediction.basis


def test_a_replica_of_a_model_that_takes_images_must_have_read_one() -> None:
    def images(model: str, name: str, **spec: object) -> int:
        made = planned(model, INVENTORIES[name], **spec)
        return 0 if made is None else sum("image_url" in str(payload) for payload in made.warm_up)

    assert images("Qwen/Qwen3.6-27B", "1×H200") == 1
    assert images("openai/gpt-oss-20b", "1×H100") == 0
    # That recipe leaves the vision tower out.
    assert images("Qwen/Qwen3.5-9B", "1×H100", profile="latency") == 0


def test_nvfp4_is_planned_on_no_gpu_that_cannot_compute_with_it() -> None:
    with pytest.raises(InvalidInput) as caught:
        plan(parse({"model": "zai-org/GLM-5.2"}), INVENTORIES["CPU"], CATALOG)
    assert "H200:4" not in (caught.value.remedy or "")
    for name in ("1×H100", "1×H200", "8×H200", "4×L40S", "1×RTX 4090"):
        for model in MODELS:
            made = on(model, name)
            assert made is None or "NVFP4" not in made.weights.sources[0], (model, name)
    with pytest.raises(InvalidInput, match="H200 cannot compute with 4-bit floats"):
        plan(parse({"model": "zai-org/GLM-5.2", "recipe": "glm-5-2/vllm-4xb200-nvfp4"}), INVENTORIES["8×H200"], CATALOG)


def test_arrivals_a_second_are_planned_as_requests_in_flight() -> None:
    model, where = "Qwen/Qwen3.6-27B", INVENTORIES["1×H200"]
    few, many = planned(model, where, workload={"rate": 0.1}), planned(model, where, workload={"rate": 1})
    assert few and many and few.prediction and many.prediction
    assert few.prediction.concurrency < many.prediction.concurrency
    assert not [row for row in many.ignored if row.field == "workload.rate"]
    said = next(one for one in many.decisions if one.choice == "requests in flight")
    assert "1 a second" in said.reason
    flood = planned(model, where, workload={"rate": 500})
    assert flood and "it takes" in next(one for one in flood.decisions if one.choice == "requests in flight").reason
    both = planned(model, where, workload={"rate": 1, "concurrency": 4})
    assert both and [row.reason for row in both.ignored] == ["workload.concurrency is planned for"]
