"""A simulated replica: reads one prompt after another, writes all answers at once, and keeps prefixes it has read."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from outrider.sim.clock import Clock
from outrider.sim.traces import Segment, SimulatedRequest

_STEPS = 8
"""Pieces in which an answer is reported after its first token: fine enough for load, and not an event a token."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What one replica can do. The defaults are an 8-billion-parameter model on one data-centre GPU, in round numbers.

    Attributes:
        prefill_rate: prompt tokens a second that it reads, one prompt after another.
        itl: seconds a token of an answer takes, however many are being written: decoding is bound by memory bandwidth.
        max_concurrency: requests it holds at most; further ones wait in the gateway's room.
        kv_tokens: tokens of prompts and answers whose attention state it keeps, the least recently used leaving first.
        page: tokens of a cache page; hits are whole pages (vLLM's and SGLang's default is 16 or less).
    """

    prefill_rate: float = 8000.0
    itl: float = 0.012
    max_concurrency: int = 32
    kv_tokens: int = 400_000
    page: int = 16


class PrefixCache:
    """What of past prompts is still there: segments, the least recently used trimmed from its end first.

    Args:
        size: tokens it holds.
        page: tokens of a page.
    """

    def __init__(self, size: int, page: int) -> None:
        self._size = size
        self._page = page
        self._segments: OrderedDict[int, int] = OrderedDict()
        self.used = 0

    def hit(self, segments: Sequence[Segment]) -> int:
        """How many tokens at the start of a prompt are cached, in whole pages."""
        tokens = 0
        for identity, wanted in segments:
            held = min(self._segments.get(identity, 0), wanted)
            tokens += held
            if held < wanted:
                break
        return tokens // self._page * self._page

    def add(self, segments: Sequence[Segment]) -> None:
        """Keep a prompt. Its start is the last to leave, since nothing after it is of use without it."""
        for identity, tokens in reversed(segments):
            held = self._segments.get(identity, 0)
            self._segments[identity] = max(held, tokens)
            self._segments.move_to_end(identity)
            self.used += max(0, tokens - held)
        while self.used > self._size:
            identity, tokens = next(iter(self._segments.items()))
            trimmed = min(tokens, self.used - self._size)
            self.used -= trimmed
            if trimmed < tokens:
                self._segments[identity] = tokens - trimmed
            else:
                del self._segments[identity]


class SimulatedReplica:
    """One replica over simulated time.

    Attributes:
        hits: prompt tokens it did not have to read.
        read: prompt tokens it read.
    """

    def __init__(self, hardware: Hardware, clock: Clock) -> None:
        self._hardware = hardware
        self._clock = clock
        self._cache = PrefixCache(hardware.kv_tokens, hardware.page)
        self._free_at = 0.0
        self.hits = 0
        self.read = 0

    def serve(self, request: SimulatedRequest, on_tokens: Callable[[int], None]) -> tuple[float, float]:
        """Take a request: its prompt is read after those before it, then its answer is written.

        Prompts are read in the order of their coming, so what is cached when one begins is known when it comes.

        Args:
            request: what came.
            on_tokens: called as its answer grows, with how many tokens were written since; 0 at its end.

        Returns:
            The moments at which its prompt begins to be read and at which its first token is there.
        """
        begin = max(self._clock.now, self._free_at)
        hit = min(self._cache.hit(request.segments), max(0, request.input_tokens - 1))  # engines read one token anew
        self._cache.add(_with_answer(request))
        self.hits += hit
        self.read += request.input_tokens - hit
        first = self._free_at = begin + (request.input_tokens - hit) / self._hardware.prefill_rate
        written = 0
        for step in range(_STEPS + 1):
            upto = 1 + (request.output_tokens - 1) * step // _STEPS
            if upto > written:
                tokens, written = upto - written, upto
                self._clock.at(first + (upto - 1) * self._hardware.itl, partial(on_tokens, tokens))
        self._clock.at(first + max(0, written - 1) * self._hardware.itl, partial(on_tokens, 0))
        return begin, first


def _with_answer(request: SimulatedRequest) -> list[Segment]:
    """A prompt and its answer, which is cached with what the prompt ends in."""
    segments = list(request.segments)
    if segments:
        identity, tokens = segments[-1]
        segments[-1] = (identity, tokens + request.output_tokens)
    return segments
