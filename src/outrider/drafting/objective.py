"""From a batch to a loss: the target's states, the drafter's blocks, and what they should have said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from .attention import PACKED, attending
from .batches import Batch, Mask
from .losses import block_loss, eal, selector_loss, with_label
from .model import DFlash
from .settings import TrainSettings
from .target import States, Target


@dataclass(frozen=True)
class Step:
    """What one batch gave: the loss with its gradient, and detached, the expected acceptance length (``eal``)."""

    loss: Tensor
    eal: Tensor


def measure(drafter: DFlash, target: Target, batch: Batch, settings: TrainSettings) -> Step:
    """The loss of ``drafter`` on ``batch``."""
    with attending(target.model, PACKED):
        states = target.states(batch.tokens, batch.positions, batch.target_mask())
    labels, scored, teacher = _wanted(target, batch, states, settings)
    hidden = _blocks(drafter, target, batch, states, settings)[:, 1:]

    def head(rows: Tensor) -> Tensor:
        return drafter.shape_logits(target.logits(rows))

    selector = drafter.candidate_selector
    unary = block_loss(
        hidden,
        head,
        labels,
        scored,
        settings.loss,
        teacher=teacher,
        candidates=0 if selector is None else selector.top_k,
    )
    if selector is None or unary.candidates is None:
        return Step(unary.loss, eal(unary.correct, scored))
    before = torch.cat([batch.labels[..., 0].flatten()[:, None], labels[:, :-1]], 1)
    shown, place = with_label(unary.candidates, labels)
    logits = drafter.shape_logits(_logits_of(target, hidden, shown))
    scores = logits + selector.correction(hidden.to(logits.dtype), before, shown)
    chosen = shown.gather(-1, _best(scores, shown, unary.candidates)[..., None])[..., 0]
    loss = unary.loss + settings.selector_weight * selector_loss(scores, place, scored)
    return Step(loss, eal((chosen == labels) & scored, scored))


def _best(scores: Tensor, shown: Tensor, offered: Tensor) -> Tensor:
    """The best of the candidates that the drafter itself offered: a label put among them in training is no choice."""
    own = shown[..., -1] == offered[..., -1]
    last = torch.where(own, scores.detach()[..., -1], float("-inf"))
    return torch.cat([scores.detach()[..., :-1], last[..., None].to(scores.dtype)], -1).argmax(-1)


def _logits_of(target: Target, hidden: Tensor, tokens: Tensor) -> Tensor:
    """Logits of a few tokens a slot: [n, slots, K]."""
    rows: Tensor = target.head_rows(tokens)
    return (rows.to(hidden.dtype) @ hidden[..., None])[..., 0].float()


def _blocks(drafter: DFlash, target: Target, batch: Batch, states: States, settings: TrainSettings) -> Tensor:
    """The drafter's states [b·a, size, hidden]."""
    config = drafter.config
    kinds = {kind: index for index, kind in enumerate(config.layer_types)}
    by_kind: Mapping[str, Mask] = {
        kind: batch.block_mask(window=config.window(layer), causal=config.causal(layer))
        for kind, layer in kinds.items()
    }
    device = batch.tokens.device.type
    with torch.autocast(device, torch.bfloat16, enabled=settings.precision == "bf16"):
        context = drafter.project_context(states.features, batch.positions)
        embeds = target.embed(batch.block_tokens(config.mask_token_id))
        hidden = drafter.forward_block(embeds, batch.block_positions(), context, by_kind, block_size=batch.size)
    return hidden.view(-1, batch.size, hidden.shape[-1])


def _wanted(
    target: Target, batch: Batch, states: States, settings: TrainSettings
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Labels, which slots count, and for ``kd`` the target's states, of slots 1 … size-1: [b·a, size-1]."""
    labels, scored = batch.labels.flatten(0, 1)[:, 1:], batch.scored.flatten(0, 1)[:, 1:]
    if settings.labels == "data" and settings.loss.objective != "kd":
        return labels, scored, None
    offsets = torch.arange(batch.size - 1, device=labels.device)
    at = (batch.anchors.clamp(min=0)[..., None] + offsets).flatten(1).clamp(max=batch.tokens.shape[1] - 1)
    width = states.final.shape[-1]
    final = states.final.gather(1, at[..., None].expand(-1, -1, width)).view(*labels.shape, width)
    if settings.labels == "target":
        said = _argmax(target, final, settings.loss.chunk_blocks)
        follows = torch.nn.functional.pad((said == labels)[:, :-1].long().cumprod(-1), (1, 0), value=1).bool()
        labels, scored = torch.where(scored, said, labels), scored & follows
    return labels, scored, final if settings.loss.objective == "kd" else None


@torch.no_grad()
def _argmax(target: Target, final: Tensor, chunk: int) -> Tensor:
    """The target's most likely tokens [n, slots] after these states, a chunk of blocks at a time."""
    parts = [target.shape_logits(target.logits(part)).argmax(-1) for part in final.split(chunk)]
    return torch.cat(parts)
