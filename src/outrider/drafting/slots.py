"""Many texts at once, a token each a step: how the target writes data in this process.

A *script* says what becomes of one text: spans that are given, and spans that the model writes. Every token, given or
written, goes through the same step, so there is no separate prefill, no padding and no waiting for the longest text: a
slot whose script is over gets the next one. On CUDA the step is a graph, captured once for each span of 128 positions.

The host looks only every few steps; a slot that stops in between stands still until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .attention import SLOTS, SlotStore, attending
from .target import Target

_LOOK_EVERY = 8
_SPAN = 128


@dataclass(frozen=True)
class Sampler:
    """How tokens are drawn.

    Attributes:
        temperature: 0 takes the most likely token.
        top_p: share of probability that is drawn from; 1 for all. Below 1 every step sorts the vocabulary.
        min_p: tokens less likely than this share of the most likely one are not drawn; 0 for none.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    min_p: float = 0.0


@dataclass(frozen=True)
class Given:
    """Tokens that stand in the text as they are."""

    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Written:
    """A span that the model writes: until one of the stop tokens, which is part of it, or ``limit`` tokens."""

    sampler: Sampler
    limit: int
    answer: bool = True
    """Whether the span is supervised; spans that are not (a user's turn) must end with a stop token."""


@dataclass(frozen=True)
class Script:
    """What one text is made of; it starts with :class:`Given`."""

    id: str
    parts: tuple[Given | Written, ...]
    note: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Text:
    """A finished script: its tokens, the spans that were written, and whether each ended with a stop token."""

    script: Script
    tokens: list[int]
    spans: list[tuple[int, int, Written, bool]]


class SlotWriter:
    """Writes texts with ``target`` in ``slots`` slots of at most ``width`` tokens."""

    def __init__(
        self, target: Target, *, slots: int, width: int, stops: Iterable[int], seed: int, top_p: bool = False
    ) -> None:
        """Set the slots up.

        Args:
            target: who writes.
            slots: texts at once.
            width: longest text, in tokens.
            stops: tokens that end a turn.
            seed: of what is drawn.
            top_p: whether some sampler's ``top_p`` is below 1.
        """
        model: Any = target.model
        self._target, self._model, self._slots, self._width = target, model, slots, width
        self._device = target.device
        self._store = SlotStore(model.config, slots, width, self._device, target.dtype)
        self._stops = torch.tensor(sorted(stops), device=self._device)
        self._tokens = torch.zeros(slots, width + 1, device=self._device, dtype=torch.long)
        self._position = torch.zeros(slots, device=self._device, dtype=torch.long)
        self._given = torch.zeros(slots, device=self._device, dtype=torch.long)
        self._end = torch.zeros(slots, device=self._device, dtype=torch.long)
        self._still = torch.ones(slots, device=self._device, dtype=torch.bool)
        self._sampling = torch.zeros(slots, 3, device=self._device)
        self._columns = torch.arange(width, device=self._device)
        self._rows = torch.arange(slots, device=self._device)
        self._top_p = top_p
        self._stop_set = set(self._stops.tolist())
        self._span = _SPAN
        self._graphs: dict[int, Any] = {}
        self._state: list[_Progress | None] = [None] * slots
        torch.manual_seed(seed)

    @torch.no_grad()
    def write(self, scripts: Iterator[Script], report: Callable[[int], None] = lambda _: None) -> Iterator[Text]:
        """Yields texts as they are finished; ``report`` hears how many tokens each look added.

        Texts whose unsupervised span met no stop token, or that would outgrow their slot, are dropped.
        """
        while True:
            yield from self._look(scripts, report)
            if not any(self._state):
                return
            with attending(self._model, SLOTS):
                for _ in range(_LOOK_EVERY):
                    self._advance()

    def _look(self, scripts: Iterator[Script], report: Callable[[int], None]) -> Iterator[Text]:
        """Read the slots, take what is finished, and say what comes next in those that stand still."""
        still, position = self._still.cpu().numpy(), self._position.cpu().numpy()
        waiting = np.flatnonzero(still)
        texts = self._tokens[torch.from_numpy(waiting).to(self._device)].cpu().numpy()
        added, changed = 0, []
        for slot, text in zip(waiting.tolist(), texts, strict=True):
            progress = self._state[slot]
            if progress is not None:
                tokens = text[: position[slot] + 1]
                added += len(tokens) - progress.length
                if not progress.take(tokens, self._stop_set):
                    if progress.finished:
                        yield progress.text()
                    self._state[slot] = progress = None
            if progress is None:
                progress = self._state[slot] = self._begin(scripts)
                position[slot] = 0
            if progress is not None:
                changed.append((slot, progress))
        self._load(changed)
        # A slot moves on by at most one position a step.
        reach = max((position[slot] for slot, state in enumerate(self._state) if state is not None), default=0)
        self._span = min(self._width, -(-(int(reach) + _LOOK_EVERY + 1) // _SPAN) * _SPAN)
        report(added)

    def _begin(self, scripts: Iterator[Script]) -> _Progress | None:
        """The next script that fits a slot."""
        for script in scripts:
            progress = _Progress(script, self._width)
            if progress.length + progress.writing.limit // 4 < self._width:
                return progress
        return None

    def _load(self, changed: list[tuple[int, _Progress]]) -> None:
        if not changed:
            return
        rows = torch.tensor([slot for slot, _ in changed], device=self._device)
        block = np.zeros((len(changed), self._width + 1), dtype=np.int64)
        numbers = np.zeros((len(changed), 3), dtype=np.int64)
        sampling = np.zeros((len(changed), 3), dtype=np.float32)
        for row, (_, progress) in enumerate(changed):
            known = progress.tokens
            block[row, : len(known)] = known
            sampler = progress.writing.sampler
            numbers[row] = progress.length - progress.fresh, len(known), len(known) + progress.writing.limit
            sampling[row] = sampler.temperature, sampler.top_p, sampler.min_p
        self._tokens[rows] = torch.from_numpy(block).to(self._device)
        first, given, end = torch.from_numpy(numbers).to(self._device).unbind(1)
        self._position[rows], self._given[rows] = first, given
        self._end[rows] = end.clamp(max=self._width)
        self._sampling[rows] = torch.from_numpy(sampling).to(self._device)
        self._still[rows] = False

    def _advance(self) -> None:
        if self._device.type != "cuda":
            self._store.span = self._span
            self._step()
            return
        if self._span not in self._graphs:
            self._graphs[self._span] = self._captured(self._span)
        self._graphs[self._span].replay()

    def _captured(self, span: int) -> Any:
        self._store.span = span
        kept = [tensor.clone() for tensor in (self._tokens, self._position, self._still)]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=next(iter(self._graphs.values())).pool() if self._graphs else None):
            self._step()
        for tensor, value in zip((self._tokens, self._position, self._still), kept, strict=True):
            tensor.copy_(value)
        return graph

    def _step(self) -> None:
        """One token in every slot that does not stand still."""
        at = self._position
        self._store.position.copy_(at)
        torch.gt(self._columns[None, None, None], at[:, None, None, None], out=self._store.hidden)
        token = self._tokens[self._rows, at]
        hidden = self._model.get_decoder()(
            input_ids=token[:, None], position_ids=at[:, None], use_cache=False, store=self._store
        ).last_hidden_state
        drawn = self._draw(self._target.shape_logits(self._target.logits(hidden[:, 0])).float())
        following = at + 1
        known = following < self._given
        move = ~self._still
        value = torch.where(known, self._tokens[self._rows, following], drawn)
        self._tokens[self._rows, following] = torch.where(move, value, self._tokens[self._rows, following])
        stopped = ~known & torch.isin(value, self._stops)
        over = stopped | (following + 1 >= self._end) & ~known
        self._position.copy_(torch.where(move, following, at))
        self._still.logical_or_(over)

    def _draw(self, logits: Tensor) -> Tensor:
        """``argmax(logits + T·Gumbel)``: a draw from ``softmax(logits / T)``, the most likely token where T is 0."""
        temperature, top_p, min_p = (column[:, None] for column in self._sampling.unbind(1))
        kept = logits - logits.amax(-1, keepdim=True) >= min_p.clamp(min=1e-30).log() * temperature
        if self._top_p:
            kept &= _nucleus(logits / temperature.clamp(min=1e-6), top_p)
        noise = -torch.empty_like(logits).exponential_().log()
        return (logits + temperature * noise).masked_fill(~kept, float("-inf")).argmax(-1)


def _nucleus(logits: Tensor, top_p: Tensor) -> Tensor:
    """The smallest sets of most likely tokens that hold ``top_p``."""
    ordered, order = logits.softmax(-1).sort(-1, descending=True)
    before = ordered.cumsum(-1) - ordered
    return torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before < top_p.clamp(min=1e-6))


class _Progress:
    """How far one script has come."""

    def __init__(self, script: Script, width: int) -> None:
        self.script, self._width = script, width
        self.tokens: list[int] = []
        self.spans: list[tuple[int, int, Written, bool]] = []
        self.finished = False
        self.fresh = 0
        self._next = 0
        self._open()

    @property
    def length(self) -> int:
        """Tokens that the slot holds once it has read what was given last."""
        return len(self.tokens)

    def _open(self) -> None:
        """Append what is given next, up to the next written span."""
        parts = self.script.parts
        before = len(self.tokens)
        while self._next < len(parts) and isinstance(part := parts[self._next], Given):
            self.tokens.extend(part.tokens)
            self._next += 1
        writing = parts[self._next]
        assert isinstance(writing, Written)
        self.writing = writing
        # The last token written was never read by the model, so it is read again with what is new.
        self.fresh = len(self.tokens) - before + (1 if before else 0)

    def take(self, tokens: NDArray[np.int64], stops: set[int]) -> bool:
        """Take the written span off the slot's ``tokens``; whether the script goes on."""
        start = len(self.tokens)
        self.tokens = tokens.tolist()
        ended = len(self.tokens) > start and self.tokens[-1] in stops
        self.spans.append((start, len(self.tokens), self.writing, ended))
        self._next += 1
        if not ended or self._next >= len(self.script.parts):
            self.finished = ended or self.writing.answer
            return False
        room = (
            self._width
            - len(self.tokens)
            - sum(len(p.tokens) for p in self.script.parts[self._next :] if isinstance(p, Given))
        )
        if room < self.writing.limit // 4:
            self.finished = True
            return False
        self._open()
        return True

    def text(self) -> Text:
        """The finished text."""
        return Text(self.script, self.tokens, self.spans)
