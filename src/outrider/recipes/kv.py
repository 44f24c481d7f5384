"""What a replica caches for the requests it holds: keys and values, by kind of attention. Unknown facts give None."""

from __future__ import annotations

from outrider.spec.facts import ModelFacts

ELEMENT = 2
"""Bytes of a cached number: bf16 or f16, what every engine here takes unless it is told otherwise."""
_STATE_ELEMENT = 4
"""Bytes of a number in the state of a linear layer: float32, SGLang's default; vLLM's may be half."""


def kv_element(kind: object) -> int:
    """Bytes of a cached number with the flag ``kv_cache_type``: 1 for any fp8."""
    return 1 if str(kind or "").startswith("fp8") else ELEMENT


def full_layers(facts: ModelFacts) -> int | None:
    """Layers that cache every token. None: not known."""
    if facts.layers is None or (facts.window is not None and facts.window_layers is None):
        return None
    return facts.layers - (facts.window_layers or 0) - (facts.linear_layers or 0) - (facts.plain_layers or 0)


def kv_bytes(
    facts: ModelFacts, tokens: int, *, requests: int = 1, element: int = ELEMENT, split: int = 1
) -> int | None:
    """Bytes that each of ``split`` GPUs caches for ``requests`` requests of ``tokens`` tokens.

    Heads are divided among the GPUs, and repeated where there are fewer heads than GPUs. Latent attention has nothing
    to divide: each GPU holds all of it.
    """
    layers = full_layers(facts)
    state = linear_bytes(facts, split)
    width = _full_width(facts, element, split)
    if layers is None or state is None or width is None:
        return None
    windowed = 0
    if facts.window_layers and facts.window:
        inside = min(tokens, facts.window)
        narrow = _window_width(facts, element, split)
        if narrow is None:
            return None
        windowed = facts.window_layers * narrow * inside
    return requests * (layers * width * tokens + windowed + state)


def linear_bytes(facts: ModelFacts, split: int = 1) -> int | None:
    """Bytes of all linear layers' state for one request, on each of ``split`` GPUs; 0 without such layers."""
    if not facts.linear_layers:
        return 0
    if facts.linear_state is None:
        return None
    return -(-facts.linear_layers * facts.linear_state * _STATE_ELEMENT // split)


def _full_width(facts: ModelFacts, element: int, split: int) -> int | None:
    """Bytes a token and layer."""
    if facts.kv_lora_rank is not None:
        if facts.rope_head_dim is None:
            return None
        return (facts.kv_lora_rank + facts.rope_head_dim + (facts.index_head_dim or 0)) * element
    return _heads_width(facts.kv_heads, facts.head_dim, element, split)


def _window_width(facts: ModelFacts, element: int, split: int) -> int | None:
    heads = facts.window_kv_heads or facts.kv_heads
    return _heads_width(heads, facts.window_head_dim or facts.head_dim, element, split)


def _heads_width(heads: int | None, dim: int | None, element: int, split: int) -> int | None:
    if heads is None or dim is None:
        return None
    return 2 * -(-heads // split) * dim * element
