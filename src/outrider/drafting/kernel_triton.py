"""The Triton kernel of :mod:`.kernel`; imported only where it runs."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def norm_rotate_kernel(  # type: ignore[no-untyped-def]  # Triton takes an annotation for a value
    projected,
    weight,
    cosines,
    sines,
    keys,
    values,
    rows,
    length,
    eps,
    LAYERS: tl.constexpr,
    HEADS: tl.constexpr,
    HALF: tl.constexpr,
    PADDED: tl.constexpr,
    TILE: tl.constexpr,
):
    """Norm and turn TILE rows of one head's keys, and move its values, from ``[rows, N, 2, nKV, d]``."""
    layer, head = tl.program_id(1), tl.program_id(2)
    row = (tl.program_id(0) * TILE + tl.arange(0, TILE)).to(tl.int64)
    column = tl.arange(0, PADDED)
    mask = (row < rows)[:, None] & (column < HALF)[None, :]
    source = ((row * LAYERS + layer) * 2 * HEADS + head)[:, None] * (2 * HALF) + column[None, :]
    first = tl.load(projected + source, mask=mask, other=0.0).to(tl.float32)
    second = tl.load(projected + source + HALF, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt((tl.sum(first * first, 1) + tl.sum(second * second, 1)) / (2 * HALF) + eps)[:, None]
    gains = weight + layer * 2 * HALF + column
    first *= scale * tl.load(gains, mask=column < HALF, other=0.0).to(tl.float32)[None, :]
    second *= scale * tl.load(gains + HALF, mask=column < HALF, other=0.0).to(tl.float32)[None, :]
    angle = row[:, None] * HALF + column[None, :]
    cos = tl.load(cosines + angle, mask=mask, other=0.0)
    sin = tl.load(sines + angle, mask=mask, other=0.0)
    batch, position = row // length, row % length
    place = (((layer * (rows // length) + batch) * HEADS + head) * length + position)[:, None] * (2 * HALF)
    place += column[None, :]
    kind = keys.dtype.element_ty
    tl.store(keys + place, (first * cos - second * sin).to(kind), mask=mask)
    tl.store(keys + place + HALF, (second * cos + first * sin).to(kind), mask=mask)
    moved = source + HEADS * 2 * HALF
    tl.store(values + place, tl.load(projected + moved, mask=mask), mask=mask)
    tl.store(values + place + HALF, tl.load(projected + moved + HALF, mask=mask), mask=mask)
