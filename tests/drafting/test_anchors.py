"""Where blocks start, and where they are cut."""

from __future__ import annotations

import numpy as np

from outrider.drafting import anchors

MASK = np.array([[0, 0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0]], bool)
DOCUMENTS = np.array([[0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, -1]])
TOKENS = np.arange(100, 112)[None]


def test_an_anchor_and_its_successor_are_supervised_and_of_one_document() -> None:
    assert np.flatnonzero(anchors.candidates(MASK, DOCUMENTS)[0]).tolist() == [2, 3, 6, 8, 9]


def test_all_candidates_are_drawn_in_order_where_there_are_fewer_than_wanted() -> None:
    drawn = anchors.sample(MASK, DOCUMENTS, 8, np.random.default_rng(0))
    assert drawn.tolist() == [[2, 3, 6, 8, 9, -1, -1, -1]]


def test_draws_are_without_replacement_and_follow_the_seed() -> None:
    mask, documents = np.ones((3, 200), bool), np.zeros((3, 200), np.int64)
    first = anchors.sample(mask, documents, 50, np.random.default_rng(7))
    assert (np.diff(first, axis=1) > 0).all()
    assert (first == anchors.sample(mask, documents, 50, np.random.default_rng(7))).all()
    assert (first != anchors.sample(mask, documents, 50, np.random.default_rng(8))).any()


def test_a_block_is_cut_where_the_mask_turns_off_or_the_document_ends() -> None:
    starts = np.array([[2, 3, 6, 8, 9, -1]])
    blocks = anchors.cut(TOKENS, MASK, DOCUMENTS, starts, 4)
    assert blocks.tokens[0].tolist() == [
        [102, 103, 104, 0],
        [103, 104, 0, 0],
        [106, 107, 0, 0],
        [108, 109, 110, 0],
        [109, 110, 0, 0],
        [0, 0, 0, 0],
    ]
    assert blocks.scored[0].sum(-1).tolist() == [2, 1, 1, 2, 1, 0]
    assert not blocks.scored[..., 0].any()
    assert blocks.used[0].tolist() == [True] * 5 + [False]


def test_the_last_block_of_a_row_is_cut_at_its_edge() -> None:
    mask, documents = np.ones((1, 12), bool), np.zeros((1, 12), np.int64)
    blocks = anchors.cut(TOKENS, mask, documents, np.array([[10]]), 8)
    assert blocks.scored[0, 0].tolist() == [False, True] + [False] * 6
