"""DFlash 2's candidate selector: of the best tokens of each slot it picks a path that makes sense as a whole.

The score of candidate c after token t in slot k is ``logit_k(c) + ⟨A[t] ⊙ P h_k, B[c]⟩``. The path starts at the
anchor. Source: `dflash` 0.1.0, `CandidateSelector`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .config import DraftConfig


class Walk(NamedTuple):
    """One path through the candidates.

    Attributes:
        tokens: ``[B, slots]``, what was picked.
        candidates: ``[B, slots, k]``, what it was picked from.
        probabilities: ``[B, slots, k]``, with which probability each would have been; None in a greedy walk.
    """

    tokens: Tensor
    candidates: Tensor
    probabilities: Tensor | None


class CandidateSelector(nn.Module):
    """Two codebooks ``[V, r]``, of the token before and of the candidate, and a projection of the slot's state."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        rank = config.selector_rank or 0
        self.top_k = config.selector_top_k or 0
        self.predecessor_codebook = nn.Parameter(torch.empty(config.vocab_size, rank))
        self.successor_codebook = nn.Parameter(torch.empty(config.vocab_size, rank))
        self.hidden_projection = nn.Linear(config.hidden_size, rank, bias=False)
        self.reset_to_identity()

    @torch.no_grad()
    def reset_to_identity(self) -> None:
        """Change no score: the projection is zero; the codebooks are random, so that it learns."""
        nn.init.normal_(self.predecessor_codebook, std=0.02)
        nn.init.normal_(self.successor_codebook, std=0.02)
        self.hidden_projection.weight.zero_()

    def correction(self, hidden: Tensor, before: Tensor, candidates: Tensor) -> Tensor:
        """What is added to the candidates' logits.

        Args:
            hidden: ``[..., H]``, the slots' states.
            before: ``[...]``, the token before each slot.
            candidates: ``[..., k]``.
        """
        mixed = self.predecessor_codebook[before] * self.hidden_projection(hidden)
        added: Tensor = (mixed.unsqueeze(-2) * self.successor_codebook[candidates]).sum(-1)
        return added

    def scores(self, hidden: Tensor, logits: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """Candidates and their scores where the tokens before are known: in training, and when scoring a record.

        Args:
            hidden: ``[..., slots, H]``.
            logits: ``[..., slots, V]``, the draft's.
            before: ``[..., slots]``.

        Returns:
            Candidates and scores, ``[..., slots, k]``.
        """
        unary, candidates = logits.topk(min(self.top_k, logits.shape[-1]), dim=-1)
        return candidates, unary + self.correction(hidden, before, candidates)

    @torch.no_grad()
    def walk(
        self,
        hidden: Tensor,
        logits: Tensor,
        anchor: Tensor,
        temperature: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> Walk:
        """Pick slot after slot, each given the last; the best at temperature 0, else by chance.

        Args:
            hidden: ``[B, slots, H]``.
            logits: ``[B, slots, V]``.
            anchor: ``[B]``, the token before the first slot.
            temperature: of the softmax over the candidates.
            generator: of the chance.
        """
        unary, candidates = logits.topk(min(self.top_k, logits.shape[-1]), dim=-1)
        before, tokens, rows = anchor, [], []
        for slot in range(hidden.shape[1]):
            scores = unary[:, slot] + self.correction(hidden[:, slot], before, candidates[:, slot])
            if temperature > 0:
                rows.append(torch.softmax(scores.float() / temperature, dim=-1))
                index = torch.multinomial(rows[-1], 1, generator=generator)
            else:
                index = scores.argmax(-1, keepdim=True)
            before = candidates[:, slot].gather(-1, index)[:, 0]
            tokens.append(before)
        return Walk(torch.stack(tokens, 1), candidates, torch.stack(rows, 1) if rows else None)
