"""DFlash: a drafter that fills a whole block of tokens in one pass, from the target's own states.

The target's states at K layers are fused to one context row a token; each draft layer projects it to keys and values.
The block is ``[anchor, MASK, ...]``; its rows see the whole context and one another, and row k says the token at its
own position. Embedding and head are the target's. Sources: arXiv 2602.06036, `dflash` 0.1.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ..errors import InvalidDrafter
from .config import DraftConfig
from .context import ContextKV
from .kernel import split_context
from .layer import Attention, DraftLayer, Mask
from .rotary import RMSNorm, Rotary
from .selector import CandidateSelector


class DFlash(nn.Module):
    """The drafter; with ``config.is_dflash2`` it has DFlash 2's convolutions and candidate selector.

    Attributes:
        config: its shape.
        gradient_checkpointing: recompute each layer in the backward pass; slower, and far less memory.
        candidate_selector: DFlash 2's, else None.
    """

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(len(config.target_layer_ids) * config.hidden_size, config.hidden_size, bias=False)
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.layers = nn.ModuleList(DraftLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.rotary = Rotary(config)
        self.candidate_selector = CandidateSelector(config) if config.is_dflash2 else None
        self.gradient_checkpointing = False

    def project_context(self, features: Tensor, positions: Tensor) -> ContextKV:
        """Keys and values of context tokens, for all layers by one GEMM.

        Args:
            features: ``[B, S, K·H]``, the target's states after the tapped layers, ascending.
            positions: ``[B, S]``, absolute.
        """
        context: Tensor = self.hidden_norm(self.fc(features.to(self._dtype(features))))
        weight, bias = self._context_projection()
        rows = functional.linear(context.flatten(0, 1), weight, bias)  # 2-D: torch's CPU bf16 path needs it
        heads, width = self.config.num_key_value_heads, self.config.head_dim
        shape = (*positions.shape, self.config.num_hidden_layers, 2, heads, width)
        gains = torch.stack([layer.k_norm.weight for layer in self.attentions()])
        cos, sin = self.rotary(positions)
        keys, values = split_context(rows.view(shape), gains, self.config.rms_norm_eps, cos, sin)
        return ContextKV(keys, values, positions)

    def forward_block(
        self,
        embeds: Tensor,
        positions: Tensor,
        context: ContextKV,
        mask: Mask | Mapping[str, Mask] = None,
        *,
        block_size: int | None = None,
    ) -> Tensor:
        """Hidden states of block rows; the target's head makes logits of them (:meth:`shape_logits`).

        Args:
            embeds: ``[B, R, H]``, the target's raw embeddings of anchor and MASK; scaled here where the config says so.
            positions: ``[B, R]``, absolute.
            context: what comes before; without a mask all of it is seen.
            mask: None for one block; for several, booleans ``[B, 1, R, S + R]`` (the layers' windows and causality are
                added) or a :class:`BlockMask`, which must hold them already: one, or one for each of ``layer_types``.
            block_size: rows of a block, where it is not the config's: R rows, where they are fewer.
        """
        size = block_size or min(self.config.block_size, embeds.shape[1])
        if embeds.shape[1] % size:
            raise ValueError(f"{embeds.shape[1]} rows are no blocks of {size}")
        hidden = embeds.to(self._dtype(embeds)) * self.config.input_embedding_scale
        angles = self.rotary(positions)
        masks = _LayerMasks(self.config, positions, context.positions, mask)
        for index, layer in enumerate(self.layers):
            rest = (angles, context.keys[index], context.values[index], masks.of(index), size)
            if self.gradient_checkpointing and torch.is_grad_enabled():
                hidden = cast(Tensor, checkpoint(layer, hidden, *rest, use_reentrant=False))
            else:
                hidden = layer(hidden, *rest)
        normed: Tensor = self.norm(hidden)
        return normed

    def shape_logits(self, logits: Tensor) -> Tensor:
        """The draft's logits, of what the target's head makes of :meth:`forward_block`'s rows."""
        logits = logits * self.config.output_multiplier if self.config.output_multiplier != 1.0 else logits
        cap = self.config.final_logit_softcapping
        return torch.tanh(logits / cap) * cap if cap else logits

    def _dtype(self, given: Tensor) -> torch.dtype:
        """Dtype of the rows: the weights' own, or what autocast was given."""
        return given.dtype if torch.is_autocast_enabled(given.device.type) else self.fc.weight.dtype

    def attentions(self) -> list[Attention]:
        """The attention of each layer."""
        return [cast(DraftLayer, layer).self_attn for layer in self.layers]

    def _context_projection(self) -> tuple[Tensor, Tensor | None]:
        """Weight ``[N·2·nKV·d, H]`` and bias of all layers' key and value projections, in that order."""
        parts: list[nn.Linear] = [part for layer in self.attentions() for part in (layer.k_proj, layer.v_proj)]
        bias = torch.cat([part.bias for part in parts]) if self.config.attention_bias else None
        if torch.is_grad_enabled():
            return torch.cat([part.weight for part in parts]), bias
        return _side_by_side([cast(nn.Parameter, part.weight) for part in parts]), bias


@torch.inference_mode(False)
def _side_by_side(weights: list[nn.Parameter]) -> Tensor:
    """One matrix over the storage of all of them, moved there on the first call: no copy a step, and never stale."""
    first, rows, columns = weights[0], weights[0].shape[0], weights[0].shape[1]
    step = first.numel() * first.element_size()
    aligned = all(w.data_ptr() == first.data_ptr() + i * step and w.is_contiguous() for i, w in enumerate(weights))
    whole = first.untyped_storage().nbytes() - first.storage_offset() * first.element_size() >= step * len(weights)
    if not (aligned and whole):
        together = torch.cat([weight.data for weight in weights])
        if any(weight.is_inference() for weight in weights):
            return together  # made in inference mode: they cannot be moved
        for weight, part in zip(weights, together.split(rows), strict=True):
            weight.data = part
    return first.data.as_strided((rows * len(weights), columns), (columns, 1))


class _LayerMasks:
    """The mask of each layer: the caller's, and the layer's own window and causality."""

    def __init__(self, config: DraftConfig, rows: Tensor, context: Tensor, mask: Any) -> None:
        self._config, self._rows, self._given = config, rows, mask
        self._keys = torch.cat((context.expand(rows.shape[0], -1), rows), dim=1)
        self._made: dict[tuple[str, bool], Mask] = {}

    def of(self, layer: int) -> Mask:
        kind, causal = self._config.layer_types[layer], self._config.causal(layer)
        if (kind, causal) not in self._made:
            self._made[kind, causal] = self._make(kind, causal, self._config.window(layer))
        return self._made[kind, causal]

    def _make(self, kind: str, causal: bool, window: int | None) -> Mask:
        given: Mask = self._given[kind] if isinstance(self._given, Mapping) else self._given
        if given is not None and not isinstance(given, Tensor):
            if not isinstance(self._given, Mapping) and len(set(self._config.layer_types)) > 1:
                raise InvalidDrafter(
                    "One mask cannot serve full and sliding layers",
                    why="a BlockMask holds its window",
                    remedy="Give both.",
                )
            return given
        if not causal and window is None:
            return given
        ahead = (self._keys[:, None, :] - self._rows[:, :, None]).unsqueeze(1)
        seen = ahead <= 0 if causal else torch.ones_like(ahead, dtype=torch.bool)
        if window is not None:
            seen &= ahead > -window
            seen &= ahead < window
        return seen if given is None else seen & given
