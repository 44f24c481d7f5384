"""One step's tensors: packed rows and the blocks drawn in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from . import anchors, masks
from .packing import Packed

Mask = BlockMask | Tensor


@dataclass(frozen=True)
class Batch:
    """Tensors of one step.

    Attributes:
        tokens: [b, s].
        positions: [b, s] within the document.
        documents: [b, s], -1 on padding.
        anchors: [b, a], -1 where unused.
        labels: [b, a, size] the data's tokens from the anchor on.
        scored: [b, a, size] which slots count; slot 0 never.
    """

    tokens: Tensor
    positions: Tensor
    documents: Tensor
    anchors: Tensor
    labels: Tensor
    scored: Tensor

    @property
    def size(self) -> int:
        """Tokens of a block."""
        return self.labels.shape[-1]

    def block_tokens(self, mask_token: int) -> Tensor:
        """[b, a·size]: each anchor, then the mask token."""
        tokens = torch.full_like(self.labels, mask_token)
        tokens[..., 0] = self.labels[..., 0]
        return tokens.flatten(1)

    def block_positions(self) -> Tensor:
        """[b, a·size]: from the anchor's position on."""
        start = self.positions.gather(1, self.anchors.clamp(min=0))
        offsets = torch.arange(self.size, device=start.device)
        return (start[..., None] + offsets).flatten(1)

    def target_mask(self) -> Mask:
        """The target's: tiles on CUDA, booleans elsewhere."""
        rows, width = self.tokens.shape
        sees = masks.causal(self.documents)
        if self.tokens.is_cuda:
            return masks.tiled(sees, masks.causal_tiles(self.documents), width, width)
        return masks.dense(sees, rows, width, width, self.tokens.device)

    def block_mask(self, *, window: int | None, causal: bool) -> Mask:
        """The drafter's, for layers of this window and causality."""
        rows, width = self.tokens.shape
        queries = self.anchors.shape[1] * self.size
        sees = masks.block(self.documents, self.anchors, self.size, window=window, causal_inside=causal)
        if self.tokens.is_cuda:
            tiles = masks.block_tiles(self.documents, self.anchors, self.size)
            return masks.tiled(sees, tiles, queries, width + queries)
        return masks.dense(sees, rows, queries, width + queries, self.tokens.device)


def batch(packed: Packed, *, count: int, size: int, random: np.random.Generator, device: torch.device) -> Batch:
    """Draws ``count`` blocks of ``size`` tokens in each packed row."""
    drawn = anchors.sample(packed.mask, packed.documents, count, random)
    blocks = anchors.cut(packed.tokens, packed.mask, packed.documents, drawn, size)
    arrays = (packed.tokens, packed.positions, packed.documents, blocks.anchors, blocks.tokens, blocks.scored)
    on_device = [torch.from_numpy(array).to(device, non_blocking=True) for array in arrays]
    return Batch(*on_device)
