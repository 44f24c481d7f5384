"""How much memory a replica needs: weights, KV cache, buffers. Unknown facts give None, not a guess."""

from __future__ import annotations

from outrider.recipes.schema import Recipe
from outrider.spec.facts import ModelFacts

_KV_ELEMENT = 2
"""Bytes of a cached key or value (f16, llama.cpp's default)."""
_BUFFERS = 256 * 2**20
"""Bytes for code, compute buffers and the server: 423 MB resident were seen with 98 MB of weights and four slots."""


def kv_bytes(facts: ModelFacts, tokens: int) -> int | None:
    """Bytes of the KV cache for ``tokens`` tokens: 2 × layers × KV heads × head dimension × element × tokens."""
    if facts.layers is None or facts.kv_heads is None or facts.head_dim is None:
        return None
    return 2 * facts.layers * facts.kv_heads * facts.head_dim * _KV_ELEMENT * tokens


def need(recipe: Recipe, *, context: int, slots: int) -> int | None:
    """Bytes of host memory one replica needs, or None where facts are missing."""
    facts = recipe.model.facts
    cache = kv_bytes(facts, (context or recipe.limits.max_context) * slots)
    weights = recipe.weights[0].bytes or facts.file_bytes
    return None if cache is None or weights is None else weights + cache + _BUFFERS
