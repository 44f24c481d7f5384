"""Speed from first principles: bytes read and operations done in a step, over what the hardware can, and an overhead.

A step reads every weight that its tokens use once and every cached key and value of its requests, and multiplies. It
takes the longer of both, times what is lost (the efficiencies), and a fixed time a layer for launching its kernels,
which is what small models on fast GPUs wait for. With a drafter a step verifies several tokens, drafts in passes of its
own, and commits τ tokens. The model of a step is the usual one (Williams et al., *Roofline*, CACM 2009; Pope et al.,
*Efficiently Scaling Transformer Inference*, 2022). How far off it is: docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outrider.models.precision import rate
from outrider.recipes.device import Device
from outrider.recipes.drafting import Draft
from outrider.recipes.kv import full_layers, kv_bytes, kv_element
from outrider.spec.facts import ModelFacts

BANDWIDTH_SHARE = 0.87
"""Share of a GPU's bandwidth that decoding reaches. One H200: with the overhead below, 5.11 ms a token of the Qwen3-8B
shape in bf16 (15.1 GB read) are explained by it."""
RATE_SHARE = 0.4
"""Share of a GPU's dense rate that reading a prompt reaches. One H200: 512 tokens of the Qwen3-8B shape in 19.6 ms."""
LAYER_SECONDS = {"sglang": 42e-6, "vllm": 60e-6, "llamacpp": 42e-6}
"""Seconds a layer takes however small it is, by engine. One H200: 1.31 ms (SGLang) and 2.30 ms (vLLM) a token of
SmolLM2-135M, 30 layers, of which its weights explain 0.06. vLLM's is halfway to what its Qwen3-8B shape leaves."""
EXPERTS_SECONDS = 28e-6
"""Further seconds of a layer with experts (routing, sorting, two grouped products), and"""
SPLIT_SECONDS = 15e-6
"""of each of a layer's two sums over GPUs. Set so that the two published rows without speculation (gpt-oss-120b on
8 B200 with 64 microseconds a layer, Kimi-K2.5 on 8 H200 with 143) are missed by about as much, one each way."""


@dataclass(frozen=True, slots=True)
class Model:
    """What the roofline knows of a model on an engine.

    Attributes:
        facts: its architecture.
        weights: bytes.
        precision: of the weights, by name.
        engine: which launches its kernels.
        values: flags in effect.
    """

    facts: ModelFacts
    weights: int
    precision: str
    engine: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of one request, and generated tokens a second of all of them."""

    ttft: float
    itl: float
    output_tps: float


def unknown(facts: ModelFacts, weights: int | None, device: Device) -> str:
    """What is missing for a prediction, in words; empty: nothing."""
    missing = []
    if device.bandwidth is None or not device.rates:
        missing.append(f"the speed of {device.name}")
    if weights is None:
        missing.append("the weights' size")
    if facts.parameters is None:
        missing.append("the number of parameters")
    elif facts.experts and (facts.active_parameters is None or facts.experts_per_token is None):
        missing.append("how many parameters a token uses")
    if facts.layers is None or kv_bytes(facts, 1) is None:
        missing.append("layers or what they cache")
    return ", ".join(missing)


def step_seconds(model: Model, device: Device, *, requests: int, tokens: int, context: int) -> float:
    """Seconds of one step that computes ``tokens`` tokens of each of ``requests`` requests holding ``context``."""
    facts, split = model.facts, device.split
    computed = requests * tokens
    cached = kv_bytes(facts, context, requests=requests, element=kv_element(model.values.get("kv_cache_type")))
    assert cached is not None  # ``unknown`` says so before
    read = (model.weights * touched(facts, computed) + cached) / split
    done = computed * _operations(facts, context) / split
    return max(read / _bandwidth(device), done / _rate(device, model.precision)) + _overhead(model, device)


def decode_seconds(model: Model, device: Device, drafter: Draft, *, requests: int, context: int) -> float:
    """Seconds of one verification step with its drafting; without a drafter of a plain step."""
    step = step_seconds(model, device, requests=requests, tokens=drafter.tokens + 1, context=context)
    return step + drafter.passes * _draft_seconds(model, device, drafter, requests)


def speed(
    model: Model,
    device: Device,
    drafter: Draft,
    *,
    requests: int,
    input_tokens: int,
    shared_tokens: int,
    output_tokens: int,
    acceptance: float,
    slower: float | None = None,
) -> Speed:
    """What ``requests`` requests, always in flight, see: prompts are read between steps, and all wait for it.

    Args:
        shared_tokens: leading tokens of a prompt that the prefix cache holds.
        acceptance: tokens committed a step, τ.
        slower: times a plain step that one with the drafter was measured to take; None: it is computed.
    """
    fresh = max(1, input_tokens - shared_tokens)
    prompt = step_seconds(model, device, requests=1, tokens=fresh, context=input_tokens)
    context = input_tokens + output_tokens // 2
    if slower is None:
        decode = decode_seconds(model, device, drafter, requests=requests, context=context)
    else:
        decode = slower * step_seconds(model, device, requests=requests, tokens=1, context=context)
    steps = output_tokens / acceptance
    answer = steps * decode + (requests - 1) * prompt
    waiting = (requests - 1) * prompt / (answer + prompt)  # how likely another's prompt is being read on arrival
    return Speed(prompt * (1 + waiting), answer / output_tokens, requests * output_tokens / (answer + prompt))


def touched(facts: ModelFacts, tokens: int) -> float:
    """Share of the weights that ``tokens`` tokens read: of experts those that any of them chose, all else once.

    An embedding that is not also the output head is looked up, not read.
    """
    total = facts.parameters or 1
    looked_up = 0
    if facts.tied_embeddings is False:
        looked_up = (facts.vocab_size or 0) * (facts.hidden_size or 0)
    routed = _routed(facts)
    chosen = 1.0
    if routed and facts.experts and facts.experts_per_token:
        chosen = 1 - (1 - facts.experts_per_token / facts.experts) ** tokens
    return (total - looked_up - routed * (1 - chosen)) / total


def _routed(facts: ModelFacts) -> float:
    """Parameters in routed experts: what a token does not use is their share that it does not choose."""
    if not facts.experts or not facts.experts_per_token or facts.active_parameters is None or facts.parameters is None:
        return 0.0
    if facts.experts_per_token >= facts.experts:
        return 0.0
    unused = facts.parameters - facts.active_parameters
    return min(float(facts.parameters), unused / (1 - facts.experts_per_token / facts.experts))


def _operations(facts: ModelFacts, context: int) -> float:
    """Operations a token: two a parameter that it uses, and attention over half the context on average."""
    used = facts.active_parameters or facts.parameters or 0
    attention = 4 * (full_layers(facts) or 0) * (facts.heads or 0) * (facts.head_dim or 0) * context / 2
    return 2 * used + attention


def _draft_seconds(model: Model, device: Device, drafter: Draft, requests: int) -> float:
    """One pass of the drafter in bf16, with the target's output head."""
    facts = model.facts
    head = (facts.vocab_size or 0) * (facts.hidden_size or 0)
    size = drafter.read + head
    tokens = requests * (drafter.tokens + 1 if drafter.passes == 1 else 1)
    read, done = 2 * size / device.split, 2 * size * tokens / device.split
    launches = drafter.layers * _layer_seconds(model, device)
    return max(read / _bandwidth(device), done / _rate(device, "bf16")) + launches


def _overhead(model: Model, device: Device) -> float:
    return (model.facts.layers or 0) * (
        _layer_seconds(model, device) + (EXPERTS_SECONDS if model.facts.experts and device.kind == "gpu" else 0.0)
    )


def _layer_seconds(model: Model, device: Device) -> float:
    if device.kind == "cpu":
        return 0.0
    return LAYER_SECONDS[model.engine] + (2 * SPLIT_SECONDS if device.count > 1 else 0.0)


def _bandwidth(device: Device) -> float:
    """Bytes a second of one part; a CPU's figure is of what was reached, not of what was sold."""
    assert device.bandwidth is not None  # ``unknown`` says so before
    return device.bandwidth * (BANDWIDTH_SHARE if device.kind == "gpu" else 1.0)


def _rate(device: Device, precision: str) -> float:
    sold = device.rates.get(rate(precision), device.rates["bf16"])
    return sold * (RATE_SHARE if device.kind == "gpu" else 1.0)
