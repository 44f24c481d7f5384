"""Norm and RoPE of the projected context, all layers at once: one Triton kernel on CUDA, plain torch elsewhere.

The projection itself is one GEMM for all draft layers. What follows it is bound by memory: read once, norm and turn the
keys, and write keys and values where attention reads them. Done layer by layer that is a dozen small kernels a layer.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from .rotary import norm_rotate


def split_context(projected: Tensor, weight: Tensor, eps: float, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Projected context rows → keys, normed and turned, and values.

    The kernel has no backward pass: where a gradient is wanted, torch does it.

    Args:
        projected: ``[B, S, N, 2, nKV, d]``: for each layer its keys, then its values; contiguous.
        weight: ``[N, d]``, each layer's ``k_norm``.
        eps: of the norm.
        cos: fp32 ``[B, S, d/2]``, contiguous; ``sin`` likewise.

    Returns:
        Keys and values, each ``[N, B, nKV, S, d]`` in the dtype of ``projected``.
    """
    if available(projected):
        return fused(projected, weight, eps, cos, sin)
    return plain(projected, weight, eps, cos, sin)


def available(projected: Tensor) -> bool:
    """Whether the kernel can take it: on CUDA (or Triton's interpreter), and no gradient is wanted."""
    if torch.is_grad_enabled() and projected.requires_grad:
        return False
    return projected.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"


def plain(projected: Tensor, weight: Tensor, eps: float, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`split_context` in torch; differentiable."""
    keys, values = (part.permute(2, 0, 3, 1, 4) for part in projected.unbind(3))
    turned = norm_rotate(keys, weight[:, None, None, None], eps, cos[None, :, None], sin[None, :, None])
    return turned, values


def fused(projected: Tensor, weight: Tensor, eps: float, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`split_context` in one Triton kernel: a program for each layer, head and tile of rows."""
    import triton

    batch, length, layers, _, heads, width = projected.shape
    keys = projected.new_empty(layers, batch, heads, length, width)
    values = torch.empty_like(keys)
    rows, tile = batch * length, 16
    if rows:
        _kernel()[(triton.cdiv(rows, tile), layers, heads)](
            projected, weight, cos, sin, keys, values, rows, length, eps,
            LAYERS=layers, HEADS=heads, HALF=width // 2, PADDED=triton.next_power_of_2(width // 2), TILE=tile,
        )  # fmt: skip
    return keys, values


def _kernel() -> Any:
    """The kernel, compiled on its first use: importing Triton costs a second that a CPU need not pay."""
    from .kernel_triton import norm_rotate_kernel

    return norm_rotate_kernel
