"""Losses over a large vocabulary, a chunk of blocks at a time, and the acceptance length they stand for.

The head is frozen, so the only gradient wanted is that of the drafter's hidden states. It is computed chunk by chunk
during the forward pass: logits of one chunk exist at a time, are made once, and are never kept.

Objectives, as SpecForge (`dflash_family_model.py`) has them:

- ``ce``: cross-entropy with the label, slot ``k`` weighted ``exp(-(k-1)/γ)``;
- ``kd``: cross-entropy with the target's distribution at that slot, weighted likewise;
- ``dpace``: cross-entropy weighted by D-PACE. With ``p_k`` the drafter's probability of the label at slot ``k``,
  ``s_k = (1-α) p_k + α`` (1 at unscored slots), ``P_k = Π_{j≤k} s_j``: ``w_k = Σ_{j≥k} P_j`` over scored slots,
  detached.

``ce`` and ``kd`` are divided by the sum of their weights, ``dpace`` by the number of blocks: its weights carry scale.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Objective = Literal["ce", "kd", "dpace"]
Head = Callable[[Tensor], Tensor]
"""``[…, hidden] -> […, vocabulary]``: the target's frozen head."""


@dataclass(frozen=True)
class LossSettings:
    """What is minimised.

    Attributes:
        objective: ``ce``, ``kd`` or ``dpace``; D-PACE by default, the best in every comparison known.
        gamma: decay of slot weights for ``ce`` and ``kd``, in slots; 4 suits blocks of 8 (paper, A.1).
        alpha: smoothing of ``dpace``, 0 to 1; 0.5 as in SpecForge.
        chunk_blocks: blocks whose logits exist at once; 256 blocks of 8 at 49,152 words are 0.35 GB in fp32.
    """

    objective: Objective = "dpace"
    gamma: float = 4.0
    alpha: float = 0.5
    chunk_blocks: int = 256


@dataclass(frozen=True)
class BlockLoss:
    """The loss (a scalar with gradient), and per scored slot [n, slots] whether the argmax is the label, detached."""

    loss: Tensor
    correct: Tensor
    candidates: Tensor | None = None


def dpace_weights(probabilities: Tensor, scored: Tensor, alpha: float) -> Tensor:
    """D-PACE weights [n, slots] from the probabilities of the labels; 0 at unscored slots, detached."""
    smoothed = torch.where(scored, (1 - alpha) * probabilities.detach() + alpha, 1.0)
    reached = smoothed.cumprod(-1) * scored
    return reached.flip(-1).cumsum(-1).flip(-1) * scored


def decay_weights(scored: Tensor, gamma: float) -> Tensor:
    """``exp(-(k-1)/γ)`` for slots ``k`` = 1, 2, …; 0 at unscored slots."""
    slots = torch.arange(scored.shape[-1], device=scored.device, dtype=torch.float32)
    return torch.exp(-slots / gamma) * scored


def eal(correct: Tensor, scored: Tensor) -> Tensor:
    """Expected acceptance length: mean over blocks of the first run of correct slots, plus the bonus token.

    It tracks an engine's τ under greedy decoding; the share of right tokens alone does not. A cut block counts what it
    holds.
    """
    used = scored.any(-1)
    runs = (correct & scored).long().cumprod(-1).sum(-1)
    return torch.where(used, runs, 0).sum() / used.sum().clamp(min=1) + 1


def block_loss(
    hidden: Tensor,
    head: Head,
    labels: Tensor,
    scored: Tensor,
    settings: LossSettings,
    *,
    teacher: Tensor | None = None,
    candidates: int = 0,
) -> BlockLoss:
    """The loss of blocks whose slots 1 … B-1 have these hidden states.

    Args:
        hidden: [n, slots, hidden] of the drafter, after its final norm.
        head: the target's head; no parameter of it may require a gradient.
        labels: [n, slots] tokens.
        scored: [n, slots] which slots count.
        teacher: [n, slots, hidden] the target's final states that predict those slots; for ``kd`` only.
        candidates: also return the ids of the so many most likely tokens a slot, most likely first; 0 for none.
    """
    weight = scored.any(-1).sum() if settings.objective == "dpace" else decay_weights(scored, settings.gamma).sum()
    state = (head, labels, scored, settings, teacher, candidates)
    loss, correct, best = _InForward.apply(hidden, state)  # type: ignore[no-untyped-call]
    return BlockLoss(loss / weight.clamp(min=1e-6), correct, best if candidates else None)


class _InForward(torch.autograd.Function):
    """Sums chunks' losses, and makes the gradient of ``hidden`` on the way."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, state: tuple[Any, ...]) -> tuple[Tensor, Tensor, Tensor]:
        head, labels, scored, settings, teacher, candidates = state
        gradient, correct = torch.empty_like(hidden), torch.empty_like(scored)
        best = labels.new_empty((*labels.shape, candidates))
        total = torch.zeros((), device=hidden.device)
        chunk = _compiled_chunk() if hidden.is_cuda else _chunk
        for start in range(0, len(hidden), settings.chunk_blocks):
            part = slice(start, start + settings.chunk_blocks)
            with torch.enable_grad():
                leaf = hidden[part].detach().requires_grad_()
                logits = head(leaf)
            seen = logits.detach()
            taught = None if teacher is None else head(teacher[part]).detach()
            loss, right, slope = chunk(seen, labels[part], scored[part], taught, settings)
            (gradient[part],) = torch.autograd.grad(logits, leaf, slope)
            total += loss
            correct[part] = right
            if candidates:
                best[part] = seen.topk(candidates, dim=-1).indices
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(correct, best)
        return total, correct, best

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0].to(gradient.dtype), None


def _chunk(
    logits: Tensor, labels: Tensor, scored: Tensor, taught: Tensor | None, settings: LossSettings
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, which argmaxes are right, and the loss's gradient by the logits: ``w·(softmax - wanted)``."""
    wide = logits.float()
    normaliser = wide.logsumexp(-1)
    of_label = wide.gather(-1, labels[..., None])[..., 0] - normaliser
    correct = (wide.argmax(-1) == labels) & scored
    if settings.objective == "dpace":
        weights = dpace_weights(of_label.exp(), scored, settings.alpha)
    else:
        weights = decay_weights(scored, settings.gamma)
    drawn = (wide - normaliser[..., None]).exp()
    if taught is None:
        wanted = (torch.arange(wide.shape[-1], device=wide.device) == labels[..., None]).float()
        loss = -(weights * of_label).sum()
    else:
        wanted = taught.float().softmax(-1)
        loss = -(weights * ((wanted * wide).sum(-1) - normaliser)).sum()
    return loss, correct, (weights[..., None] * (drawn - wanted)).to(logits.dtype)


@functools.cache
def _compiled_chunk() -> Callable[..., tuple[Tensor, Tensor, Tensor]]:
    return torch.compile(_chunk, dynamic=False)


def selector_loss(scores: Tensor, choice: Tensor, scored: Tensor) -> Tensor:
    """Cross-entropy of the selector over its candidates, given the true previous token.

    Args:
        scores: [n, slots, K] of the candidates.
        choice: [n, slots] index of the label among them (:func:`with_label`).
        scored: [n, slots] which slots count.
    """
    of_choice = scores.float().log_softmax(-1).gather(-1, choice[..., None])[..., 0]
    return -(of_choice * scored).sum() / scored.any(-1).sum().clamp(min=1)


def with_label(candidates: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Puts each label among its candidates: where it is missing it takes the last place.

    Returns:
        the candidates [n, slots, K], and the label's index among them [n, slots].
    """
    hits = candidates == labels[..., None]
    missing = ~hits.any(-1)
    last = torch.where(missing, labels, candidates[..., -1])
    result = torch.cat([candidates[..., :-1], last[..., None]], -1)
    place = torch.where(missing, candidates.shape[-1] - 1, hits.int().argmax(-1))
    return result, place
