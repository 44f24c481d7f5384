"""Whether a replica fits: what each GPU, or the host, has to hold, part by part, against what it has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outrider.models.precision import bits
from outrider.recipes.device import Device
from outrider.recipes.drafting import Draft
from outrider.recipes.kv import kv_bytes, kv_element
from outrider.recipes.schema import Recipe
from outrider.spec.facts import ModelFacts

MIB = 2**20
_MEMORY_SHARE = 0.9
"""Share of a GPU's memory that an engine takes where ``memory_share`` says nothing: vLLM's default was 0.9 for years,
SGLang's is computed near it."""
_BATCHED_TOKENS = 8192
"""Tokens that an engine computes in one step while it reads prompts, where ``batch_size`` says nothing."""
_GRAPHS = 1024 * MIB
"""Bytes for CUDA graphs, of one GPU: vLLM's own estimate in its log is between half of it and all of it."""
_CONTEXT = 640 * MIB
"""Bytes for the CUDA context, libraries and NCCL's buffers, of one GPU."""
_LIVE = 6
"""Tensors of one layer that live at once while a prompt is read: residual, normalised, queries, keys, gate, up."""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes and what they are for."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Load:
    """What a replica is to hold at once.

    Attributes:
        requests: in flight.
        tokens: of each, prompt and answer.
        context: the most that one request may hold, which an engine reserves for one request at least.
        adapters: bytes of LoRA adapters, of which every GPU is taken to hold all. It is the files' size: what an
            engine reserves beyond it for the largest rank is not counted.
    """

    requests: int
    tokens: int
    context: int
    adapters: int = 0


@dataclass(frozen=True, slots=True)
class Fit:
    """What is needed and what there is, of each GPU or of the host.

    Attributes:
        parts: empty where the need was not computed.
        needed: bytes; None: neither computed nor stated.
        available: bytes.
        unknown: the facts that are missing for computing it, in words; empty: it was computed.
    """

    parts: tuple[Part, ...]
    needed: int | None
    available: int
    unknown: str = ""

    @property
    def missing(self) -> int:
        """Bytes too few; 0 where it fits, or nobody can say."""
        return max(0, (self.needed or 0) - self.available)


def weights_bytes(recipe: Recipe, facts: ModelFacts, precision: str | None = None) -> int | None:
    """Bytes of the weights: as the recipe or the files say, else parameters times bits, of ``precision`` if given."""
    if precision is None:
        first = recipe.weights[0]
        known = first.bytes or facts.file_bytes
        if known is not None:
            return known
    width = bits(precision or recipe.precision)
    return None if width is None or facts.parameters is None else int(facts.parameters * width / 8)


def gpu_fit(
    facts: ModelFacts, weights: int | None, device: Device, load: Load, drafter: Draft, values: Mapping[str, Any]
) -> Fit:
    """The need of each GPU of ``device``, with the flags ``values``."""
    available = int(device.memory_bytes * float(values.get("memory_share") or _MEMORY_SHARE)) - _CONTEXT
    split, element = device.count, kv_element(values.get("kv_cache_type"))
    held = kv_bytes(facts, load.tokens, requests=load.requests, element=element, split=split)
    longest = kv_bytes(facts, load.context, element=element, split=split)
    if unknown := _unknown(facts, weights, held, drafter):
        return Fit((), None, available, unknown)
    assert weights is not None and held is not None and longest is not None  # said unknown above
    cached = max(held, longest)
    parts = [
        Part("weights", -(-weights // split)),
        Part("KV cache", cached),
        Part("activations", _activations(facts, load, split, int(values.get("batch_size") or _BATCHED_TOKENS))),
        Part("graphs", 0 if values.get("eager") or values.get("cuda_graphs") is False else _GRAPHS),
    ]
    if drafter.parameters:
        parts.append(Part("drafter", -(-drafter.parameters * 2 // split)))
        parts.append(Part("drafter's KV cache", cached * drafter.layers // (facts.layers or 1)))
    if load.adapters:
        parts.append(Part("adapters", load.adapters))
    return Fit(tuple(parts), sum(part.bytes for part in parts), available)


def _unknown(facts: ModelFacts, weights: int | None, cache: int | None, drafter: Draft) -> str:
    missing = []
    if weights is None:
        missing.append("the weights' size")
    if cache is None:
        missing.append("what its attention caches (layers, heads, windows or states)")
    if facts.hidden_size is None or facts.vocab_size is None:
        missing.append("its width or vocabulary")
    if drafter.parameters is None:
        missing.append("the drafter's size")
    return " and ".join(missing)


def _activations(facts: ModelFacts, load: Load, split: int, batched: int) -> int:
    hidden, vocab = facts.hidden_size or 0, facts.vocab_size or 0
    inner = (facts.ffn_size or 3 * hidden) // split
    return batched * (_LIVE * hidden + 2 * inner) * 2 + load.requests * vocab * 4


def describe(fit: Fit) -> str:
    """The parts in words, MiB."""
    return ", ".join(f"{part.name} {part.bytes / MIB:,.0f}" for part in fit.parts) + " MiB"
