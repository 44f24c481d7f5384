"""Who proposes: a DFlash, a DFlash 2, or the text so far (n-gram, also called prompt lookup)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from .context import ContextKV
from .model import DFlash
from .sampling import Proposal, Sampler, draw
from .target import Target


class Proposer(Protocol):
    """Proposes the tokens of one request's next blocks.

    Attributes:
        block_size: most rows of a block, the anchor included.
    """

    block_size: int

    def start(self) -> None:
        """Forget the request before."""

    def observe(self, tokens: Sequence[int], features: Tensor) -> None:
        """Take in tokens that are final, and the target's states at them ``[1, S, K·H]``."""

    def propose(self, anchor: int, slots: int, sampler: Sampler, generator: torch.Generator | None) -> Proposal:
        """At most ``slots`` tokens after ``anchor``, which is final and not observed yet."""


class DraftProposer:
    """A DFlash or a DFlash 2, with a cache of its projected context."""

    def __init__(self, drafter: DFlash, target: Target, *, sample: bool = True) -> None:
        """Bind a drafter to its target.

        Args:
            drafter: in evaluation mode.
            target: with the drafter's taps.
            sample: draw drafts by the sampler's chance; False proposes the best ones, as SGLang does for DFlash.
        """
        self.drafter, self.target, self.sample = drafter, target, sample
        self.block_size = drafter.config.block_size
        self._context: ContextKV | None = None

    def start(self) -> None:
        """Forget the request before."""
        self._context = None

    @torch.no_grad()
    def observe(self, tokens: Sequence[int], features: Tensor) -> None:
        """Project the states, once for the whole request."""
        known = self._context.length if self._context else 0
        positions = torch.arange(known, known + len(tokens), device=features.device)[None]
        new = self.drafter.project_context(features, positions)
        self._context = self._context.append(new) if self._context else new

    @torch.no_grad()
    def propose(self, anchor: int, slots: int, sampler: Sampler, generator: torch.Generator | None) -> Proposal:
        """Fill a block of ``slots + 1`` rows in one pass."""
        if self._context is None:
            raise RuntimeError("nothing was observed yet")
        device = self._context.keys.device
        if not slots:
            return Proposal(torch.empty(0, dtype=torch.long, device=device))
        ids = torch.full((1, slots + 1), self.drafter.config.mask_token_id, device=device)
        ids[0, 0] = anchor
        positions = torch.arange(slots + 1, device=device)[None] + self._context.length
        rows = self.drafter.forward_block(self.target.embed(ids), positions, self._context, block_size=slots + 1)[:, 1:]
        logits = self.drafter.shape_logits(self.target.logits(rows))
        chance = not sampler.greedy and self.sample
        if self.drafter.candidate_selector is not None:
            heat = sampler.temperature if chance else 0.0
            walk = self.drafter.candidate_selector.walk(rows, logits, ids[:, 0], heat, generator)
            if walk.probabilities is None:
                return Proposal(walk.tokens[0])
            return Proposal(walk.tokens[0], walk.probabilities[0], walk.candidates[0])
        if not chance:
            return Proposal(logits[0].argmax(-1))
        drawn = sampler.probabilities(logits[0])
        return Proposal(draw(drawn, generator), drawn)


class PromptLookup:
    """Proposes what followed the last tokens the last time they were said (n-gram speculation)."""

    def __init__(self, *, block_size: int = 8, longest: int = 4, shortest: int = 2) -> None:
        """Look for repetitions.

        Args:
            block_size: most rows of a block, the anchor included.
            longest: tokens of the longest n-gram that is looked for, first.
            shortest: tokens of the shortest.
        """
        self.block_size, self._sizes = block_size, range(longest, shortest - 1, -1)
        self._text: list[int] = []
        self._device = torch.device("cpu")

    def start(self) -> None:
        """Forget the request before."""
        self._text = []

    def observe(self, tokens: Sequence[int], features: Tensor) -> None:
        """Remember the tokens."""
        self._text += tokens
        self._device = features.device

    def propose(self, anchor: int, slots: int, sampler: Sampler, generator: torch.Generator | None) -> Proposal:
        """What followed the longest n-gram that ends here, where it was last said; nothing if it never was."""
        text = [*self._text, anchor]
        for size in self._sizes:
            for end in range(len(text) - 1, size - 1, -1):
                if text[end - size : end] == text[-size:]:
                    return Proposal(torch.tensor(text[end : end + slots], dtype=torch.long, device=self._device))
        return Proposal(torch.empty(0, dtype=torch.long, device=self._device))
