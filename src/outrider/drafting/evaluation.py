"""How good a drafter is: exact acceptance on answers that the target gave before, without an engine.

Teacher forcing: the recorded answer is fed to the target once, and blocks are drafted where the loop would have drafted
them: the next anchor is the token after the last that stood. That is exact. In a greedy answer a draft stands while it
agrees. In a sampled answer x, drafts of probability q where the target has p, the first k stand with probability
E[Π min(1, q(x) / p(x))] over such answers, and given the answer each slot stood with probability min(1, q(x) / p(x)).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import InvalidInput
from .acceptance import Measurement, RecordAcceptance
from .model import DFlash
from .proposers import PromptLookup
from .sampling import Sampler
from .target import Target


@dataclass(frozen=True)
class Record:
    """What the target said.

    Attributes:
        prompt: token ids.
        answer: the target's own, by the sampler that is measured; an end-of-sequence token included.
        slice: what kind of traffic it is.
    """

    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    slice: str = "all"


@torch.no_grad()
def measure(
    drafter: DFlash,
    target: Target,
    records: Sequence[Record],
    *,
    sampler: Sampler | None = None,
    sample: bool = True,
    block_size: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Measurement:
    """Acceptance of a drafter on recorded answers.

    Args:
        drafter: in evaluation mode, on the target's device.
        target: with the drafter's taps.
        records: answers of the target by ``sampler``.
        sampler: greedy by default; penalties are not measured.
        sample: whether drafts are drawn by the sampler's chance, too; False takes the best ones.
        block_size: rows of a block, at most the drafter's, which is the default.
        batch_size: records at once; memory grows with it.
        seed: of where sampled blocks end.
        progress: told the number of records that are done, after each batch.

    Raises:
        InvalidInput: no records, or a sampler with penalties.
    """
    sampler = sampler or Sampler()
    if not records or sampler.penalises:
        raise InvalidInput("Nothing can be measured", why="there are no records, or the sampler has penalties")
    size = min(block_size or drafter.config.block_size, drafter.config.block_size)
    order = sorted(range(len(records)), key=lambda index: len(records[index].answer))
    found: dict[int, list[Tensor]] = {index: [] for index in order}
    generator = torch.Generator().manual_seed(seed)
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        batch = _Batch(drafter, target, [records[index] for index in chosen], size)
        for row, stood in batch.walk(sampler, sample and not sampler.greedy, generator):
            found[chosen[row]].append(stood)
        if progress is not None:
            progress(start + len(chosen))
    return Measurement(
        size,
        [
            RecordAcceptance(record.slice, torch.stack(found[index]) if found[index] else torch.empty(0, size - 1))
            for index, record in enumerate(records)
        ],
    )


def measure_lookup(lookup: PromptLookup, records: Sequence[Record]) -> Measurement:
    """Acceptance of n-gram speculation on recorded greedy answers; no model is needed."""
    slots, nothing = lookup.block_size - 1, torch.empty(0)
    accepted = []
    for record in records:
        text, anchor, rows = [*record.prompt, *record.answer], len(record.prompt), []
        lookup.start()
        lookup.observe(record.prompt, nothing)
        while anchor + lookup.block_size < len(text):
            drafts = lookup.propose(text[anchor], slots, Sampler(), None).tokens.tolist()
            agreed = 0
            while agreed < len(drafts) and drafts[agreed] == text[anchor + 1 + agreed]:
                agreed += 1
            rows.append((torch.arange(slots) < agreed).float())
            lookup.observe(text[anchor : anchor + agreed + 1], nothing)
            anchor += agreed + 1
        accepted.append(RecordAcceptance(record.slice, torch.stack(rows) if rows else torch.empty(0, slots)))
    return Measurement(lookup.block_size, accepted)


class _Batch:
    """Records side by side: one pass of the target over all, then a block of each, step after step."""

    def __init__(self, drafter: DFlash, target: Target, records: Sequence[Record], size: int) -> None:
        self._drafter, self._target, self._size = drafter, target, size
        device = target.device
        texts = [torch.tensor((*record.prompt, *record.answer)) for record in records]
        self._ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True).to(device)
        self._ends = torch.tensor([len(text) for text in texts], device=device)
        self._anchors = torch.tensor([len(record.prompt) for record in records], device=device)
        states = target.states(self._ids)
        self._final = states.final
        positions = torch.arange(self._ids.shape[1], device=device).expand_as(self._ids)
        self._context = drafter.project_context(states.features, positions)

    def walk(self, sampler: Sampler, sample: bool, generator: torch.Generator) -> Iterator[tuple[int, Tensor]]:
        """For each block that is not cut short by the end: the record's row, and P(first k stand) for each k."""
        offsets = torch.arange(self._size, device=self._ids.device)
        while (active := self._anchors + self._size < self._ends).any():
            places = (self._anchors[:, None] + offsets).clamp(max=self._ids.shape[1] - 1)
            tokens = self._ids.gather(1, places)
            hidden, logits = self._draft(tokens, places)
            if sampler.greedy:
                kept = (self._best(hidden, logits, tokens) == tokens[:, 1:]).float()
                stood, walked = kept.cumprod(1), kept
            else:
                wanted = sampler.probabilities(self._target_logits(places[:, :-1]))
                drawn = self._drawn(hidden, logits, tokens, sampler, sample)
                stood, chance = expected_acceptance(wanted, drawn, tokens[:, 1:])
                walked = (torch.rand(chance.shape, generator=generator).to(chance.device) < chance).float()
            here = stood.cpu()
            for row in active.nonzero()[:, 0].tolist():
                yield row, here[row]
            self._anchors += active * (walked.cumprod(1).sum(1).long() + 1)

    def _draft(self, tokens: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden states and logits of the slots after the anchors."""
        ids = torch.full_like(tokens, self._drafter.config.mask_token_id)
        ids[:, 0] = tokens[:, 0]
        length = self._context.length
        before = torch.arange(length, device=ids.device) < self._anchors[:, None]
        mask = torch.nn.functional.pad(before, (0, self._size), value=True)[:, None, None]
        hidden = self._drafter.forward_block(
            self._target.embed(ids),
            places,
            self._context,
            mask.expand(-1, -1, self._size, -1),
            block_size=self._size,
        )[:, 1:]
        return hidden, self._drafter.shape_logits(self._target.logits(hidden))

    def _best(self, hidden: Tensor, logits: Tensor, tokens: Tensor) -> Tensor:
        """The drafts of a greedy walk; past the first that falls they do not matter."""
        selector = self._drafter.candidate_selector
        if selector is None:
            return logits.argmax(-1)
        candidates, scores = selector.scores(hidden, logits, tokens[:, :-1])
        return candidates.gather(-1, scores.argmax(-1, keepdim=True))[..., 0]

    def _drawn(self, hidden: Tensor, logits: Tensor, tokens: Tensor, sampler: Sampler, sample: bool) -> Tensor:
        """With which probability each token would have been drafted, ``[B, slots, V]``."""
        if not sample:
            best = self._best(hidden, logits, tokens).unsqueeze(-1)
            return torch.zeros_like(logits, dtype=torch.float32).scatter_(-1, best, 1.0)
        selector = self._drafter.candidate_selector
        if selector is None:
            return sampler.probabilities(logits)
        candidates, scores = selector.scores(hidden, logits, tokens[:, :-1])
        drawn = (scores.float() / sampler.temperature).softmax(-1)
        return torch.zeros_like(logits, dtype=torch.float32).scatter_(-1, candidates, drawn)

    def _target_logits(self, places: Tensor) -> Tensor:
        rows = self._final.gather(1, places.unsqueeze(-1).expand(-1, -1, self._final.shape[-1]))
        return self._target.shape_logits(self._target.logits(rows))


def expected_acceptance(wanted: Tensor, drawn: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """P(first k stand) given that the answer goes on as recorded, and each slot's chance given its token.

    The k-th factor is the whole overlap Σ min(p, q), the factors before it min(1, q(x) / p(x)) of the recorded tokens:
    the mean over answers is the same as with the recorded token everywhere, and the spread is smaller.

    Args:
        wanted: the target's p, ``[B, slots, V]``.
        drawn: the drafter's q, likewise.
        tokens: the recorded x, ``[B, slots]``.

    Returns:
        Both ``[B, slots]``.
    """
    overlap = torch.minimum(wanted, drawn).sum(-1)
    picked = tokens.unsqueeze(-1)
    chance = (drawn.gather(-1, picked) / wanted.gather(-1, picked).clamp(min=1e-30))[..., 0].clamp(max=1.0)
    before = torch.nn.functional.pad(chance.cumprod(1)[:, :-1], (1, 0), value=1.0)
    return before * overlap, chance
