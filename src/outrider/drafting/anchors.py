"""Where training blocks start, and what each of their slots should say.

An *anchor* is a supervised token whose successor is supervised too, in the same document (SpecForge's rule). Slot
``k`` of its block predicts the token ``k`` places after it; slot 0 is the anchor itself and is never scored. A block
is cut where the loss mask turns off or its document ends, so the last block of an answer is short rather than left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Blocks:
    """Blocks of a batch of packed rows.

    Attributes:
        anchors: [b, a] index of each block's first token in its row, ascending; -1 where unused (those come last).
        tokens: [b, a, size] the data's tokens from the anchor on; 0 beyond the cut.
        scored: [b, a, size] whether the slot is supervised; slot 0 never is.
    """

    anchors: Ints
    tokens: Ints
    scored: Bools

    @property
    def used(self) -> Bools:
        """[b, a] whether the block exists."""
        return self.anchors >= 0


def candidates(mask: Bools, documents: Ints) -> Bools:
    """[b, s]: where a block may start."""
    result = np.zeros_like(mask)
    result[:, :-1] = mask[:, :-1] & mask[:, 1:] & (documents[:, :-1] == documents[:, 1:]) & (documents[:, :-1] >= 0)
    return result


def sample(mask: Bools, documents: Ints, count: int, random: np.random.Generator) -> Ints:
    """Draws up to ``count`` anchors a row without replacement.

    Returns:
        [b, count] ascending indices, -1 for those that the row has no candidates for, at the end.
    """
    allowed = candidates(mask, documents)
    keys = np.where(allowed, random.random(mask.shape), 2.0)
    width = min(count, mask.shape[1])
    drawn = np.argpartition(keys, width - 1, axis=1)[:, :width]
    beyond = mask.shape[1]
    drawn = np.where(np.take_along_axis(allowed, drawn, 1), drawn, beyond)
    drawn.sort(axis=1)
    result = np.full((len(mask), count), -1, dtype=np.int64)
    result[:, :width] = np.where(drawn < beyond, drawn, -1)
    return result


def cut(tokens: Ints, mask: Bools, documents: Ints, anchors: Ints, size: int) -> Blocks:
    """The blocks of ``size`` tokens that start at ``anchors``."""
    offsets = np.arange(size)
    rows = np.arange(len(tokens))[:, None, None]
    wanted = anchors[..., None] + offsets
    at = np.clip(wanted, 0, tokens.shape[1] - 1)
    same = documents[rows, at] == documents[rows, np.maximum(anchors, 0)[..., None]]
    good = (anchors[..., None] >= 0) & (wanted < tokens.shape[1]) & same & mask[rows, at]
    good = np.logical_and.accumulate(good, axis=-1)
    scored = good.copy()
    scored[..., 0] = False
    return Blocks(anchors, np.where(good, tokens[rows, at], 0), scored)
