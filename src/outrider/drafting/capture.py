"""What the frozen target thinks of packed rows: tapped hidden states, and its final states, without its head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask

from .attention import PACKED, attending


@dataclass(frozen=True)
class Captured:
    """States of one batch of packed rows.

    Attributes:
        features: [b, s, K·hidden] states after each tapped layer, ascending layers side by side.
        final: [b, s, hidden] states after the target's last norm: what its head reads.
    """

    features: Tensor
    final: Tensor


class Capture:
    """Runs ``model`` (a Hugging Face causal LM) over packed rows and keeps what ``layer_ids`` (0-based) put out."""

    def __init__(self, model: Any, layer_ids: Sequence[int], *, compiled: bool = False) -> None:
        self._model = model
        self._decoder = model.get_decoder()
        self._ids = tuple(layer_ids)
        self._kept: dict[int, Tensor] = {}
        self._forward = torch.compile(self._run, dynamic=False) if compiled else self._run

    @torch.no_grad()
    def __call__(self, tokens: Tensor, positions: Tensor, mask: BlockMask | Tensor) -> Captured:
        """States for ``tokens`` [b, s] at ``positions`` [b, s] within their documents, under the target's mask."""
        handles = [self._decoder.layers[i].register_forward_hook(self._keeper(i)) for i in self._ids]
        try:
            with attending(self._model, PACKED):
                final = self._forward(tokens, positions, mask)
            return Captured(torch.cat([self._kept[i] for i in self._ids], -1), final)
        finally:
            for handle in handles:
                handle.remove()
            self._kept.clear()

    def _run(self, tokens: Tensor, positions: Tensor, mask: BlockMask | Tensor) -> Tensor:
        out = self._decoder(input_ids=tokens, position_ids=positions, attention_mask=mask, use_cache=False)
        final: Tensor = out.last_hidden_state
        return final

    def _keeper(self, layer: int) -> Any:
        def keep(module: Any, args: Any, output: Any) -> None:
            self._kept[layer] = output[0] if isinstance(output, tuple) else output

        return keep
