"""How much memory a replica needs: weights, KV cache, prompt cache, buffers. Unknown facts give None, not a guess."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.recipes.kv import kv_bytes
from outrider.spec.facts import ModelFacts

_BUFFERS = 256 * 2**20
"""Bytes for code, compute buffers and the server itself. 69 MiB were left of the 1,139 resident with SmolLM2 and four
slots of 8,192 tokens (benchmarks/capacity), weights and caches taken off; larger models have larger buffers."""
_PROMPT_CACHE_MIB = 8192
"""llama.cpp's own bound for prompts kept in host memory, where the flag ``prompt_cache_mib`` says nothing else."""


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes of host memory that one llama.cpp replica needs, by what needs them."""

    weights: int
    kv_cache: int
    prompt_cache: int
    buffers: int = _BUFFERS

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.kv_cache + self.prompt_cache + self.buffers


def need(
    facts: ModelFacts, weights: int | None, *, context: int, slots: int, prompt_cache_mib: int | None = None
) -> Need | None:
    """What one replica needs; None where a fact is missing.

    Args:
        weights: size of the weights, bytes.
        context: tokens a slot holds.
        prompt_cache_mib: the flag's value; None: llama.cpp's own bound, of which no more is counted than the KV cache
            of all slots, since it only grows with prompts that were served.
    """
    cache = kv_bytes(facts, context, requests=slots)
    if cache is None or weights is None:
        return None
    kept = min(_PROMPT_CACHE_MIB * 2**20, cache) if prompt_cache_mib is None else prompt_cache_mib * 2**20
    return Need(weights=weights, kv_cache=cache, prompt_cache=kept)


def largest_context(have: int, facts: ModelFacts, weights: int, *, slots: int, prompt_cache_mib: int | None) -> int:
    """The largest context, in steps of 256 tokens, that fits into ``have`` bytes; 0 if none does."""
    low, high = 0, (facts.context_length or 2**20) // 256
    while low < high:
        middle = (low + high + 1) // 2
        found = need(facts, weights, context=middle * 256, slots=slots, prompt_cache_mib=prompt_cache_mib)
        if found is not None and found.total <= have:
            low = middle
        else:
            high = middle - 1
    return low * 256
