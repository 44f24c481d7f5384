"""A recipe for a model that no recipe names, made from its facts: marked ``estimated``, nothing of it was measured."""

from __future__ import annotations

from outrider.engines.flags import flags
from outrider.recipes.device import Device
from outrider.recipes.schema import (
    Hardware,
    Limits,
    Provenance,
    ReasonedFlag,
    Recipe,
    RecipeEngine,
    RecipeModel,
    Speculation,
    WeightsSource,
)
from outrider.spec.endpoint import Endpoint
from outrider.spec.facts import ModelFacts

_UNKNOWN_CONTEXT = 4096
"""Tokens a request may hold where nothing is known: a chat with its history."""
_SLOTS = 64
"""Requests decoded at once on a GPU until a measurement says more: below it throughput still rises on every GPU of the
table, and small ones hold no more."""
_DRAFTER = Speculation(method="off", reason="no drafter is known for this model")


def on_cpu(endpoint: Endpoint, facts: ModelFacts) -> Recipe:
    """For llama.cpp, from a GGUF file."""
    context = min(facts.context_length or _UNKNOWN_CONTEXT, _UNKNOWN_CONTEXT)
    trained = f"the model was trained for {facts.context_length:,}" if facts.context_length else "its own is not known"
    chosen = {
        "threads": ReasonedFlag(
            value=1, reason="llama.cpp's threads spin while they wait; raise it on cores of your own"
        ),
        "slots": ReasonedFlag(value=2, reason="requests decoded at once, until a measurement says more"),
        "context": ReasonedFlag(value=context, reason=f"tokens a request may hold; {trained}"),
        "prompt_cache_mib": ReasonedFlag(value=256, reason="MiB for prompts seen before; llama.cpp would take 8 GiB"),
    }
    return Recipe(
        schema_version=1,
        id=f"{endpoint.label}/estimated",
        version=1,
        model=RecipeModel(id=endpoint.model, facts=facts),
        precision=facts.quantisation or "unknown",
        weights=(WeightsSource(reference=endpoint.weights or endpoint.model, bytes=facts.file_bytes),),
        hardware=Hardware(kind="cpu", min_memory_bytes=facts.file_bytes or 0),
        engine=RecipeEngine(name="llamacpp", version="any"),
        tasks=("generate", "embed"),
        flags=chosen,
        speculation=_DRAFTER,
        limits=Limits(max_context=facts.context_length or context, max_concurrency=2),
        provenance=Provenance(status="estimated", note=f"made from the {facts.source}"),
    )


def on_gpus(endpoint: Endpoint, facts: ModelFacts, device: Device, reference: str) -> Recipe:
    """For vLLM, or the engine asked for, from a checkpoint; its context is what fits, found when it is weighed.

    Args:
        reference: of the weights.
    """
    engine = "sglang" if endpoint.engine == "sglang" else "vllm"
    context = facts.context_length or _UNKNOWN_CONTEXT
    chosen = {
        "context": ReasonedFlag(value=context, reason="tokens a request may hold, all the model was trained for"),
        "slots": ReasonedFlag(value=_SLOTS, reason="requests decoded at once, until a measurement says more"),
    }
    return Recipe(
        schema_version=1,
        id=f"{endpoint.label}/estimated-{engine}",
        version=1,
        model=RecipeModel(id=endpoint.model, facts=facts),
        precision=facts.quantisation or "bf16",
        weights=(WeightsSource(reference=reference, bytes=facts.file_bytes),),
        hardware=Hardware(kind="gpu", gpu=device.name, count=device.count, min_memory_bytes=0),
        engine=RecipeEngine(name=engine, version=flags(engine).versions[-1]),
        tasks=("generate",),
        flags=chosen,
        speculation=_DRAFTER,
        limits=Limits(max_context=context, max_concurrency=_SLOTS),
        provenance=Provenance(status="estimated", note=f"made from the {facts.source}"),
    )
