"""Masks of packed rows against loops written out by hand; the tiles hold every visible pair."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import Tensor

from outrider.drafting import anchors, masks
from outrider.drafting.attention import attend

WIDTH, SIZE = 300, 8


def _rows(seed: int) -> tuple[Tensor, Tensor]:
    """Document numbers [2, WIDTH] with padding at the end, and anchors [2, 32]."""
    random = np.random.default_rng(seed)
    documents = np.full((2, WIDTH), -1, np.int64)
    for row in documents:
        at = 0
        for number, end in enumerate(np.sort(random.choice(np.arange(20, 290), 4, replace=False))):
            row[at:end], at = number, end
    mask = (random.random((2, WIDTH)) < 0.9) & (documents >= 0)
    return torch.from_numpy(documents), torch.from_numpy(anchors.sample(mask, documents, 32, random))


@pytest.mark.parametrize(("window", "causal"), [(None, False), (50, False), (50, True), (None, True)])
def test_a_block_sees_its_document_before_its_anchor_and_itself(window: int | None, causal: bool) -> None:
    documents, starts = _rows(0)
    queries = starts.shape[1] * SIZE
    sees = masks.block(documents, starts, SIZE, window=window, causal_inside=causal)
    found = masks.dense(sees, 2, queries, WIDTH + queries, documents.device)[:, 0]
    expected = torch.zeros_like(found)
    for row in range(2):
        for query in range(queries):
            number, offset = divmod(query, SIZE)
            anchor = int(starts[row, number])
            for key in range(max(anchor, 0)):
                near = window is None or anchor + offset - key < window
                expected[row, query, key] = near and documents[row, key] == documents[row, anchor]
            for other in range(SIZE):
                expected[row, query, WIDTH + number * SIZE + other] = not causal or other <= offset
    assert torch.equal(found, expected)


@pytest.mark.parametrize("seed", range(4))
def test_tiles_hold_every_visible_pair(seed: int) -> None:
    documents, starts = _rows(seed)
    queries = starts.shape[1] * SIZE
    for predicate, tiles, rows, keys in (
        (masks.causal(documents), masks.causal_tiles(documents), WIDTH, WIDTH),
        (masks.block(documents, starts, SIZE), masks.block_tiles(documents, starts, SIZE), queries, WIDTH + queries),
    ):
        visible = masks.dense(predicate, 2, rows, keys, documents.device).float()
        needed = torch.nn.functional.max_pool2d(visible, masks.TILE, ceil_mode=True)[:, 0] > 0
        assert needed.shape == tiles.shape
        assert bool((needed <= tiles).all())
        assert int(tiles.sum()) < tiles.numel()


def test_flex_attention_and_the_dense_mask_agree() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    documents, starts = _rows(5)
    documents = torch.nn.functional.pad(documents, (0, 384 - WIDTH), value=-1)
    queries = starts.shape[1] * SIZE
    keys = documents.shape[1] + queries
    sees = masks.block(documents, starts, SIZE, window=50)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, heads, n, 16, generator=generator) for heads, n in ((4, queries), (2, keys), (2, keys)))
    tiled = masks.tiled(sees, masks.block_tiles(documents, starts, SIZE), queries, keys)
    # Uncompiled it warns that it is slow, once a process.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        found = flex_attention(q, k, v, block_mask=tiled, enable_gqa=True)
    dense = masks.dense(sees, 2, queries, keys, documents.device)
    torch.testing.assert_close(found, attend(q, k, v, dense), rtol=1e-4, atol=1e-5)
