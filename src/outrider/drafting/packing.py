"""Rows of equal length out of conversations of any length.

Two kinds, mixed by ``joined``: rows of *documents*, each seeing only itself, and *joined* rows, in which conversations
follow each other as one document, so that the last of them are drafted after thousands of tokens of context. What the
target would say there may differ from what it said without that context: train those with ``labels: target``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .dataset import Row

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Packed:
    """A batch of packed rows.

    Attributes:
        tokens: [b, s]; 0 on padding.
        positions: [b, s] within the document.
        documents: [b, s] number of the document in its row, -1 on padding.
        mask: [b, s] whether the target wrote the token.
    """

    tokens: Ints
    positions: Ints
    documents: Ints
    mask: NDArray[np.bool_]


class Packer:
    """Packs conversations, in an order drawn anew for each pass over them.

    Row ``i`` of the endless sequence depends on the seed and ``i`` alone, so training resumes anywhere.
    """

    def __init__(self, rows: Sequence[Row], *, width: int, joined: float, seed: int) -> None:
        self._rows, self._width, self._joined, self._seed = list(rows), width, joined, seed
        self._epoch, self._plan, self._start = -1, list[list[int]](), 0

    def batch(self, first: int, count: int) -> Packed:
        """Rows ``first`` … ``first + count - 1``."""
        shape = (count, self._width)
        packed = Packed(
            np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.full(shape, -1, np.int64), np.zeros(shape, bool)
        )
        for row in range(count):
            self._fill(packed, row, first + row)
        return packed

    def epoch(self, row: int) -> int:
        """Passes over the data that are over before ``row``."""
        self._members(row)
        return self._epoch

    def _fill(self, packed: Packed, row: int, index: int) -> None:
        joined = np.random.default_rng((self._seed, 1, index)).random() < self._joined
        at = 0
        for number, member in enumerate(self._members(index)):
            source = self._rows[member]
            length = min(len(source.tokens), self._width - at)
            place = slice(at, at + length)
            packed.tokens[row, place] = source.tokens[:length]
            packed.documents[row, place] = 0 if joined else number
            packed.positions[row, place] = np.arange(length) + (at if joined else 0)
            for start, end in source.answers:
                packed.mask[row, at + start : min(at + end, at + length)] = True
            at += length

    def _members(self, index: int) -> list[int]:
        """The conversations in row ``index``."""
        if index < self._start:
            self._epoch, self._plan, self._start = -1, [], 0
        while index >= self._start + len(self._plan):
            self._start += len(self._plan)
            self._epoch += 1
            self._plan = self._packed(np.random.default_rng((self._seed, 0, self._epoch)))
        return self._plan[index - self._start]

    def _packed(self, random: np.random.Generator) -> list[list[int]]:
        """One pass: rows filled one after another; a conversation that does not fit opens the next."""
        plan: list[list[int]] = []
        room = 0
        for member in random.permutation(len(self._rows)).tolist():
            length = min(len(self._rows[member].tokens), self._width)
            if length > room:
                plan.append([])
                room = self._width
            plan[-1].append(member)
            room -= length
        return plan
