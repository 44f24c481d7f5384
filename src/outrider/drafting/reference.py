"""The reference: speculative decoding in plain PyTorch, one request at a time. Engines are measured against it.

One step: the proposer fills a block after the anchor (the last token, final but not in the target's cache yet), one
pass of the target verifies it, and what stands is committed together with the token that the target says next.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from ..errors import InvalidInput
from .proposers import Proposer
from .sampling import Proposal, Sampler, accept
from .target import Target


@dataclass(frozen=True)
class Step:
    """One verification step.

    Attributes:
        proposed: tokens that were proposed.
        accepted: tokens of them that the target agreed to.
        committed: tokens that became part of the answer: ``accepted + 1``, or fewer where the answer ended inside.
    """

    proposed: int
    accepted: int
    committed: int


@dataclass
class Generation:
    """One answer.

    Attributes:
        tokens: its tokens, an end-of-sequence token and the tokens of a stop string included.
        text: its text, up to a stop string; empty without a tokenizer.
        finish: ``stop`` at an end-of-sequence token or a stop string, ``length`` at the most tokens.
        steps: the verification steps; the first token comes from the prompt's pass and belongs to none.
    """

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    finish: Literal["stop", "length"] = "length"
    steps: list[Step] = field(default_factory=list)

    @property
    def acceptance_length(self) -> float:
        """τ: tokens committed per verification step, the bonus token included; NaN without a step."""
        return sum(step.committed for step in self.steps) / len(self.steps) if self.steps else float("nan")


@torch.no_grad()
def generate(
    target: Target,
    prompt: Sequence[int],
    proposer: Proposer | None = None,
    *,
    max_tokens: int,
    sampler: Sampler | None = None,
    eos: Collection[int] = (),
    stop: Sequence[str] = (),
    generator: torch.Generator | None = None,
) -> Generation:
    """Answer a prompt.

    Args:
        target: with the taps that the proposer needs.
        prompt: token ids, at least one.
        proposer: who proposes; None decodes token by token.
        max_tokens: most tokens of the answer; the last block shrinks to what is left.
        sampler: how tokens are chosen; greedy by default.
        eos: ids that end the answer.
        stop: strings that end the answer; they need the target's tokenizer.
        generator: of the chance, on the target's device.

    Raises:
        InvalidInput: an empty prompt, no tokens to make, or stop strings without a tokenizer.
    """
    if not prompt or max_tokens < 1:
        raise InvalidInput("Nothing to answer", why="the prompt or max_tokens is empty")
    ending = _Ending(target.tokenizer, frozenset(eos), tuple(stop), max_tokens)
    return _Request(target, list(prompt), proposer, sampler or Sampler(), generator).run(ending)


@dataclass(frozen=True)
class _Ending:
    """When an answer is complete."""

    tokenizer: Any
    eos: frozenset[int]
    stop: tuple[str, ...]
    max_tokens: int

    def __post_init__(self) -> None:
        if self.stop and self.tokenizer is None:
            raise InvalidInput("Stop strings need a tokenizer", why="the target was loaded without one")

    def extend(self, answer: Generation, tokens: Sequence[int]) -> bool:
        """Add tokens one by one until the answer is complete; say whether it is."""
        for token in tokens:
            answer.tokens.append(token)
            stopped = self._stopped(answer)
            if stopped or len(answer.tokens) == self.max_tokens:
                answer.finish = "stop" if stopped else "length"
                return True
        return False

    def _stopped(self, answer: Generation) -> bool:
        if self.tokenizer is None:
            return answer.tokens[-1] in self.eos
        answer.text = self.tokenizer.decode(answer.tokens, skip_special_tokens=True)
        places = [place for place in (answer.text.find(string) for string in self.stop) if place >= 0]
        if places:
            answer.text = answer.text[: min(places)]
        return bool(places) or answer.tokens[-1] in self.eos


class _Request:
    """The state of one request: the target's cache and the proposer's."""

    def __init__(
        self,
        target: Target,
        prompt: list[int],
        proposer: Proposer | None,
        sampler: Sampler,
        generator: torch.Generator | None,
    ) -> None:
        self._target, self._prompt, self._proposer = target, prompt, proposer
        self._sampler, self._generator = sampler, generator
        self._cache = target.cache()
        self._answer = Generation()

    def run(self, ending: _Ending) -> Generation:
        """Prefill, then step until the answer is complete."""
        done = ending.extend(self._answer, [self._prefill()])
        while not done:
            before = len(self._answer.tokens)
            proposed, tokens = self._step(ending.max_tokens - before)
            done = ending.extend(self._answer, tokens)
            committed = len(self._answer.tokens) - before
            self._answer.steps.append(Step(proposed, len(tokens) - 1, committed))
        return self._answer

    def _prefill(self) -> int:
        output = self._target.forward(self._ids(self._prompt), self._cache, last=True)
        if self._proposer is not None:
            self._proposer.start()
            self._proposer.observe(self._prompt, output.features)
        return self._accept(Proposal(self._ids([])[0]), output.logits[0], [])[1]

    def _step(self, left: int) -> tuple[int, list[int]]:
        """Propose, verify, keep: how many were proposed, and the tokens that are final, the next anchor last."""
        anchor = self._answer.tokens[-1]
        proposal = Proposal(self._ids([])[0])
        if self._proposer is not None:
            slots = min(self._proposer.block_size, left) - 1
            proposal = self._proposer.propose(anchor, slots, self._sampler, self._generator)
        drafts = proposal.tokens.tolist()
        rows = [anchor, *drafts]
        start = self._cache.get_seq_length()
        saved = self._target.save(self._cache)
        output = self._target.forward(self._ids(rows), self._cache)
        accepted, bonus = self._accept(proposal, output.logits[0], drafts)
        kept = rows[: accepted + 1]
        self._cache = self._target.keep(self._cache, saved, start, self._ids(rows), len(kept))
        if self._proposer is not None:
            self._proposer.observe(kept, output.features[:, : len(kept)])
        return len(drafts), [*drafts[:accepted], bonus]

    def _accept(self, proposal: Proposal, logits: torch.Tensor, drafts: list[int]) -> tuple[int, int]:
        penalised = self._sampler.penalise(logits, self._prompt, self._answer.tokens, drafts)
        return accept(proposal, penalised, self._sampler, self._generator)

    def _ids(self, tokens: list[int]) -> torch.Tensor:
        return torch.tensor([tokens], dtype=torch.long, device=self._target.device)
