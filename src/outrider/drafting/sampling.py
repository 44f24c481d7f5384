"""How a token is chosen, and how proposed tokens are accepted so that the choice stays distributed as it was.

Rejection sampling: arXiv 2211.17192 and 2302.01318. Order and meaning of penalties: vLLM's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """How the target chooses its next token.

    Attributes:
        temperature: divides the logits; 0 takes the best token.
        top_p: keeps the likeliest tokens that together reach it; 1 keeps all.
        top_k: keeps that many of the likeliest; 0 keeps all.
        repetition_penalty: divides positive, multiplies negative logits of tokens in prompt or answer; 1 for none.
        presence_penalty: is taken off logits of tokens in the answer; 0 for none.
        frequency_penalty: is taken off as often as the token is in the answer; 0 for none.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InvalidInput: names the value that is outside of its range.
        """
        for name, right in (
            ("temperature", self.temperature >= 0),
            ("top_p", 0 < self.top_p <= 1),
            ("top_k", self.top_k >= 0),
            ("repetition_penalty", self.repetition_penalty > 0),
        ):
            if not right:
                raise InvalidInput(f"No sampler has {name} {getattr(self, name)}")

    @property
    def greedy(self) -> bool:
        """Whether it takes the best token."""
        return self.temperature == 0

    @property
    def penalises(self) -> bool:
        """Whether the choice depends on what was said before."""
        return (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1.0, 0.0, 0.0)

    def probabilities(self, logits: Tensor) -> Tensor:
        """``[..., V]`` logits → probabilities, fp32; all on one token where it is greedy."""
        if self.greedy:
            best = logits.argmax(-1, keepdim=True)
            return torch.zeros_like(logits, dtype=torch.float32).scatter_(-1, best, 1.0)
        scores = logits.float() / self.temperature
        if 0 < self.top_k < scores.shape[-1]:
            scores = scores.masked_fill(scores < scores.topk(self.top_k, dim=-1).values[..., -1:], -torch.inf)
        probabilities = scores.softmax(-1)
        if self.top_p < 1:
            ordered, order = probabilities.sort(dim=-1, descending=True)
            kept = ordered * (ordered.cumsum(-1) - ordered < self.top_p)
            probabilities = torch.zeros_like(probabilities).scatter_(-1, order, kept / kept.sum(-1, keepdim=True))
        return probabilities

    def penalise(self, logits: Tensor, prompt: Sequence[int], answer: Sequence[int], block: Sequence[int]) -> Tensor:
        """Logits ``[rows, V]`` with the penalties of each row's own past.

        Row i follows ``prompt``, ``answer`` and the first i tokens of ``block``, as if they had been said one by one.
        """
        if not self.penalises:
            return logits
        width, device = logits.shape[-1], logits.device
        said = torch.nn.functional.one_hot(torch.tensor([0, *block], device=device), width).float()
        said[0] = torch.bincount(torch.tensor(answer, dtype=torch.long, device=device), minlength=width)
        counts = said.cumsum(0)[: logits.shape[0]]
        seen = counts > 0
        seen[:, torch.tensor(prompt, dtype=torch.long, device=device)] = True
        penalty = torch.where(logits > 0, 1 / self.repetition_penalty, self.repetition_penalty)
        logits = torch.where(seen, logits * penalty, logits)
        return logits - self.frequency_penalty * counts - self.presence_penalty * (counts > 0)


@dataclass(frozen=True)
class Proposal:
    """Tokens that may come next, and with which probabilities they were drawn.

    Attributes:
        tokens: ``[slots]``.
        probabilities: ``[slots, V]``, or ``[slots, k]`` beside ``candidates``; None where chance had no part in them.
        candidates: ``[slots, k]``, the only tokens that could be drawn; None for the whole vocabulary.
    """

    tokens: Tensor
    probabilities: Tensor | None = None
    candidates: Tensor | None = None

    def of(self, slot: int, width: int) -> Tensor:
        """The slot's probabilities over the vocabulary ``[V]``."""
        if self.probabilities is None:
            whole = torch.zeros(width, device=self.tokens.device)
            whole[self.tokens[slot]] = 1.0
            return whole
        if self.candidates is None:
            return self.probabilities[slot]
        whole = torch.zeros(width, device=self.tokens.device)
        return whole.index_add_(0, self.candidates[slot], self.probabilities[slot])


def draw(probabilities: Tensor, generator: torch.Generator | None) -> Tensor:
    """One token of each row ``[..., V]``."""
    flat = probabilities.reshape(-1, probabilities.shape[-1])
    return torch.multinomial(flat, 1, generator=generator).reshape(probabilities.shape[:-1])


def accept(
    proposal: Proposal, logits: Tensor, sampler: Sampler, generator: torch.Generator | None = None
) -> tuple[int, int]:
    """How many proposed tokens stand, and the token after them.

    Together they are distributed exactly as the target alone would have said them: token x of probability p, drawn with
    probability q, stands with probability min(1, p / q); the first that falls is replaced by a draw from (p − q)₊.

    Args:
        proposal: the tokens.
        logits: the target's ``[slots + 1, V]``, penalised: row i follows the first i of them.
        sampler: how the target chooses.
        generator: of the chance, on the logits' device.
    """
    slots = proposal.tokens.shape[0]
    if sampler.greedy:
        best = logits.argmax(-1)
        agreed = int((best[:slots] == proposal.tokens).long().cumprod(0).sum())
        return agreed, int(best[agreed])
    wanted = sampler.probabilities(logits)
    chances = torch.rand(slots, generator=generator, device=logits.device)
    for slot in range(slots):
        drawn = proposal.of(slot, logits.shape[-1])
        token = proposal.tokens[slot]
        if chances[slot] * drawn[token] < wanted[slot, token]:
            continue
        rest = (wanted[slot] - drawn).clamp(min=0)
        return slot, int(draw(rest if rest.sum() > 0 else wanted[slot], generator))
    return slots, int(draw(wanted[slots], generator))
