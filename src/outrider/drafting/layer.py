"""One layer of a drafter: a Qwen3 block whose attention also sees the target's context."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from .config import DraftConfig
from .convolution import BlockConvolution
from .rotary import RMSNorm, norm_rotate

#: Who sees whom: None for everybody, booleans ``[B, 1, R, S + R]``, or FlexAttention's mask.
Mask = Tensor | BlockMask | None


class Attention(nn.Module):
    """Grouped-query attention of block rows to context and block; queries and keys are normed per head."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        wide, narrow = (n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads))
        self.head_dim = config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, wide, bias=config.attention_bias)
        self.k_proj = nn.Linear(config.hidden_size, narrow, bias=config.attention_bias)
        self.v_proj = nn.Linear(config.hidden_size, narrow, bias=config.attention_bias)
        self.o_proj = nn.Linear(wide, config.hidden_size, bias=config.attention_bias)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)

    def forward(
        self, hidden: Tensor, angles: tuple[Tensor, Tensor], keys: Tensor, values: Tensor, mask: Mask
    ) -> Tensor:
        """``[B, R, H]`` → ``[B, R, H]``, with context ``keys`` and ``values`` ``[B, nKV, S, d]``."""
        cos, sin = (part.unsqueeze(1) for part in angles)
        queries = norm_rotate(self._heads(self.q_proj, hidden), self.q_norm.weight, self.q_norm.eps, cos, sin)
        own_keys = norm_rotate(self._heads(self.k_proj, hidden), self.k_norm.weight, self.k_norm.eps, cos, sin)
        own_values = self._heads(self.v_proj, hidden)
        keys = torch.cat((keys.to(own_keys.dtype), own_keys), dim=2)
        values = torch.cat((values.to(own_values.dtype), own_values), dim=2)
        mixed = attend(queries, keys, values, mask)
        projected: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return projected

    def _heads(self, projection: nn.Module, hidden: Tensor) -> Tensor:
        projected: Tensor = projection(hidden)
        heads: Tensor = projected.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        return heads


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Mask) -> Tensor:
    """Softmax attention with ``[B, nH, R, d]`` queries and ``[B, nKV, S + R, d]`` keys and values."""
    if isinstance(mask, BlockMask):
        flex = flex_attention if torch.compiler.is_compiling() else _flex(queries.is_cuda)
        mixed: Tensor = flex(queries, keys, values, block_mask=mask, enable_gqa=True)
        return mixed
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, enable_gqa=True)


@cache
def _flex(compiled: bool) -> Any:
    """FlexAttention; uncompiled it writes out every score, which only a CPU test can bear."""
    return torch.compile(flex_attention, dynamic=False) if compiled else flex_attention


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, hidden: Tensor) -> Tensor:
        """``[..., H]`` → ``[..., H]``."""
        mixed: Tensor = self.down_proj(functional.silu(self.gate_proj(hidden)) * self.up_proj(hidden))
        return mixed


class DraftLayer(nn.Module):
    """Pre-norm attention and MLP with residuals; in DFlash 2 each between the two sides of a convolution."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)
        self.attention_conv: BlockConvolution | None = None
        self.mlp_conv: BlockConvolution | None = None
        if config.is_dflash2:
            self.attention_conv, self.mlp_conv = BlockConvolution(config), BlockConvolution(config)

    def forward(
        self,
        hidden: Tensor,
        angles: tuple[Tensor, Tensor],
        keys: Tensor,
        values: Tensor,
        mask: Mask,
        block_size: int,
    ) -> Tensor:
        """``[B, R, H]`` → ``[B, R, H]``; R is one block or several of ``block_size`` rows."""
        entering, leave = _sides(self.attention_conv, self.input_layernorm(hidden), block_size)
        hidden = hidden + leave(self.self_attn(entering, angles, keys, values, mask))
        entering, leave = _sides(self.mlp_conv, self.post_attention_layernorm(hidden), block_size)
        mixed: Tensor = hidden + leave(self.mlp(entering))
        return mixed


def _sides(convolution: BlockConvolution | None, hidden: Tensor, block_size: int) -> tuple[Tensor, Any]:
    """What goes into a sublayer, and what to do with what comes out."""
    if convolution is None:
        return hidden, lambda result: result
    return convolution.enter(hidden, block_size)
