"""Attention functions that a Hugging Face model calls in place of its own, while this package drives it.

Any model that goes through ``ALL_ATTENTION_FUNCTIONS`` (transformers 5) can be driven so; its layers stay untouched.

- ``outrider_packed``: one forward over packed rows, masked by a FlexAttention ``BlockMask`` or by a boolean tensor;
- ``outrider_slots``: one token a slot, keys and values written into a :class:`SlotStore` that the caller owns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from ..errors import InvalidDataset

PACKED = "outrider_packed"
SLOTS = "outrider_slots"


@functools.cache
def compiled_flex() -> Callable[..., Tensor]:
    """FlexAttention, compiled once for each set of shapes; it is of no use uncompiled."""
    compiled: Callable[..., Tensor] = torch.compile(flex_attention, dynamic=False)
    return compiled


def attend(query: Tensor, key: Tensor, value: Tensor, mask: BlockMask | Tensor, scale: float | None = None) -> Tensor:
    """Grouped-query attention [b, heads, q, d] under either form of mask."""
    if isinstance(mask, BlockMask):
        flex: Any = flex_attention if torch.compiler.is_compiling() else compiled_flex()
        attended: Tensor = flex(query, key, value, block_mask=mask, scale=scale, enable_gqa=True)
        return attended
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=scale, enable_gqa=True
    )


class SlotStore:
    """Keys and values of ``slots`` independent texts, each at a position of its own.

    Attributes:
        position: [slots] where each slot's next token goes; set by the caller before each step.
        hidden: [slots, 1, 1, span] positions that a slot must not look at; set by the caller before each step.
        span: positions looked at, at most ``width``: the caller keeps it above every position in use.
    """

    def __init__(self, config: Any, slots: int, width: int, device: torch.device, dtype: torch.dtype) -> None:
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (config.num_hidden_layers, slots, heads, width, size)
        self._keys = torch.zeros(shape, device=device, dtype=dtype)
        self._values = torch.zeros(shape, device=device, dtype=dtype)
        self._rows = torch.arange(slots, device=device)
        self.position = torch.zeros(slots, device=device, dtype=torch.long)
        self.hidden = torch.ones(slots, 1, 1, width, device=device, dtype=torch.bool)
        self.span = width

    def step(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Write one key and value [slots, heads, 1, d] a slot, and attend: [slots, 1, heads, d]."""
        keys, values = self._keys[layer], self._values[layer]
        keys[self._rows, :, self.position] = key[:, :, 0]
        values[self._rows, :, self.position] = value[:, :, 0]
        grouped = query.view(len(query), key.shape[1], -1, query.shape[-1])
        scores = (grouped @ keys[:, :, : self.span].transpose(-1, -2)).float() * scale
        weights = scores.masked_fill(self.hidden[..., : self.span], float("-inf")).softmax(-1)
        return (weights.to(values.dtype) @ values[:, :, : self.span]).reshape(len(query), 1, -1, query.shape[-1])


def _packed(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **kwargs: Any
) -> tuple[Tensor, None]:
    window = kwargs.get("sliding_window")
    if window is not None and window < key.shape[2]:
        raise InvalidDataset(
            f"The target attends within {window} tokens, and the rows are {key.shape[2]} long",
            remedy=f"Train with rows of at most {window} tokens.",
        )
    return attend(query, key, value, attention_mask, kwargs.get("scaling")).transpose(1, 2).contiguous(), None


def _slots(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **kwargs: Any
) -> tuple[Tensor, None]:
    store: SlotStore = kwargs["store"]
    return store.step(module.layer_idx, query, key, value, kwargs["scaling"]), None


@contextmanager
def attending(model: Any, name: str) -> Iterator[None]:
    """Within it ``model`` attends by :data:`PACKED` or :data:`SLOTS`."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(PACKED, _packed)
    ALL_ATTENTION_FUNCTIONS.register(SLOTS, _slots)
    before = model.config._attn_implementation
    model.config._attn_implementation = name
    try:
        yield
    finally:
        model.config._attn_implementation = before
