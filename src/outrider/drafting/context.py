"""What a drafter remembers of the text so far: keys and values of every draft layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class ContextKV:
    """Keys and values of the context rows, for all N draft layers.

    A row depends only on the target's states at its token, so it is computed once and kept for the whole request.

    Attributes:
        keys: ``[N, B, nKV, S, d]``, normed and turned.
        values: ``[N, B, nKV, S, d]``.
        positions: ``[B, S]``, the rows' absolute positions.
    """

    keys: Tensor
    values: Tensor
    positions: Tensor

    @property
    def length(self) -> int:
        """S, rows."""
        return self.positions.shape[1]

    def append(self, later: ContextKV) -> ContextKV:
        """These rows and then ``later``'s."""
        return ContextKV(
            torch.cat((self.keys, later.keys), dim=3),
            torch.cat((self.values, later.values), dim=3),
            torch.cat((self.positions, later.positions), dim=1),
        )

    def crop(self, length: int) -> ContextKV:
        """The first ``length`` rows."""
        return ContextKV(self.keys[..., :length, :], self.values[..., :length, :], self.positions[:, :length])
