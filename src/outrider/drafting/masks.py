"""Who sees whom: attention masks of packed rows, for FlexAttention and, densely, for scaled dot-product attention.

A *packed row* holds several documents one after another; ``documents[b, s]`` numbers them from 0 and is -1 on padding.
Two masks are made from it:

- the target's: causal inside each document;
- the drafter's (arXiv 2602.06036; SpecForge): its queries are ``A`` blocks of ``B`` rows, its keys the
  ``S`` context rows and then the same ``A·B`` block rows. A block row sees context of its own document *strictly*
  before its anchor, within ``window`` of the row's own position, and its own block: all of it, or causally.

The same predicate makes both forms, so a test of the dense one is a test of the other.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

TILE = 128
"""Rows and columns of a FlexAttention tile."""

Predicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""``(batch, head, query, key) -> bool``: whether the query sees the key."""


def causal(documents: Tensor) -> Predicate:
    """The target's predicate for packed rows ``documents`` [b, s]."""

    def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) & (documents[b, k] == documents[b, q])

    return sees


def block(
    documents: Tensor, anchors: Tensor, size: int, *, window: int | None = None, causal_inside: bool = False
) -> Predicate:
    """The drafter's predicate.

    Args:
        documents: [b, s] document numbers, -1 on padding.
        anchors: [b, a] indices of the blocks' first tokens in the row, ascending; -1 where the block is unused.
        size: tokens in a block.
        window: sliding window in tokens, None for all of the context.
        causal_inside: whether a row of the block sees only rows of it before it, and itself.
    """
    width = documents.shape[1]

    def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        anchor = anchors[b, q // size]
        context = (k < width) & (k < anchor)
        at = torch.where(k < width, k, 0)
        context = context & (documents[b, at] == documents[b, anchor.clamp(min=0)])
        row = k - width
        inside = (row >= 0) & (row // size == q // size)
        if window is not None:
            context = context & (anchor + q % size - k < window)
            inside = inside & ((q - row).abs() < window)
        if causal_inside:
            inside = inside & (row <= q)
        return context | inside

    return sees


def dense(predicate: Predicate, batch: int, queries: int, keys: int, device: torch.device) -> Tensor:
    """The predicate as a boolean tensor [batch, 1, queries, keys]; True where the query sees the key."""
    b = torch.arange(batch, device=device)[:, None, None]
    q = torch.arange(queries, device=device)[None, :, None]
    k = torch.arange(keys, device=device)[None, None, :]
    return predicate(b, torch.zeros_like(b), q, k)[:, None]


def tiled(predicate: Predicate, may_see: Tensor, queries: int, keys: int) -> BlockMask:
    """The predicate as a FlexAttention mask.

    Args:
        may_see: [batch, ⌈queries/TILE⌉, ⌈keys/TILE⌉] tiles that may hold a visible pair. Too many is slow, never wrong:
            the predicate decides inside them.
    """
    numbers = may_see.sum(-1, dtype=torch.int32)[:, None]
    order = torch.argsort(may_see.to(torch.int8), dim=-1, descending=True, stable=True).to(torch.int32)[:, None]
    return BlockMask.from_kv_blocks(
        numbers.contiguous(),
        order.contiguous(),
        BLOCK_SIZE=TILE,
        mask_mod=predicate,
        seq_lengths=(queries, keys),
    )


def causal_tiles(documents: Tensor) -> Tensor:
    """Tiles in which :func:`causal` may be true: on or below the diagonal, sharing a document."""
    low, high = _ranges(documents)
    number = low.shape[1]
    at = torch.arange(number, device=documents.device)
    shares = (low[:, None, :] <= high[:, :, None]) & (low[:, :, None] <= high[:, None, :])
    return shares & (at[None, :, None] >= at[None, None, :])


def block_tiles(documents: Tensor, anchors: Tensor, size: int) -> Tensor:
    """Tiles in which :func:`block` may be true, whatever the window: context before the last anchor of a tile of
    queries and in the documents of its anchors, and the tiles on the blocks' own diagonal."""
    width, rows = documents.shape[1], anchors.shape[1] * size
    in_tile = max(1, TILE // size)
    padded = torch.nn.functional.pad(anchors, (0, -anchors.shape[1] % in_tile), value=-1)
    grouped = padded.unflatten(1, (-1, in_tile))
    used = grouped >= 0
    owner = documents.gather(1, padded.clamp(min=0)).unflatten(1, (-1, in_tile))
    first = torch.where(used, owner, torch.iinfo(torch.int32).max).amin(-1)
    last = torch.where(used, owner, -1).amax(-1)
    latest = grouped.amax(-1)
    low, high = _ranges(documents)
    starts = torch.arange(low.shape[1], device=documents.device) * TILE
    context = (starts[None, None] < latest[:, :, None]) & (low[:, None] <= last[:, :, None])
    context = context & (high[:, None] >= first[:, :, None])
    queries, keys = -(-rows // TILE), -(-(width + rows) // TILE)
    row = torch.arange(queries, device=documents.device)[:, None] * TILE
    key = torch.arange(keys, device=documents.device)[None] * TILE - width
    own = (key < row + TILE) & (row < key + TILE)
    result = own.expand(len(documents), -1, -1).clone()
    result[:, : context.shape[1], : context.shape[2]] |= context
    return result


def _ranges(documents: Tensor) -> tuple[Tensor, Tensor]:
    """Lowest and highest document number in each tile; padding counts as the number of a document of its own."""
    missing = -documents.shape[1] % TILE
    tiles = torch.nn.functional.pad(documents, (0, missing), value=-1).unflatten(1, (-1, TILE))
    return tiles.amin(-1), tiles.amax(-1)
