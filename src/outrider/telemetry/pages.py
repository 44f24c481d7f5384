"""An engine's metrics pages of the last minute: what it says now, and what its counters rose by. Pure: time comes in.

An engine counts from its start; what a user wants to know is how it does now. So pages are kept for a minute, and the
oldest is taken from the newest.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import zip_longest

from outrider.engines.normalise import EngineMetrics
from outrider.metrics.distribution import Distribution
from outrider.telemetry.window import WINDOW

STALE = 10_000
"""Milliseconds after which a page says nothing of now: an engine that is asked each second missed ten."""


@dataclass(frozen=True, slots=True)
class Rise:
    """What counters rose by between two pages of an engine, or of several added up. Unknown is None, never zero.

    Attributes:
        generated_per_second: tokens sampled a second.
        prompt_tokens: prompt tokens computed.
        cached_tokens: prompt tokens taken from a cache.
        drafts: verification steps.
        accepted_tokens: proposed tokens that were accepted, the bonus token not included.
        accepted_by_position: of those, how many at each position of the draft; empty: unknown.
        ttft, itl, queue: as in :class:`~outrider.engines.normalise.EngineMetrics`.
    """

    generated_per_second: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    drafts: int | None = None
    accepted_tokens: int | None = None
    accepted_by_position: tuple[int, ...] = ()
    ttft: Distribution | None = None
    itl: Distribution | None = None
    queue: Distribution | None = None

    @classmethod
    def between(cls, earlier: EngineMetrics, later: EngineMetrics, seconds: float) -> Rise:
        """From two pages of one engine that lie ``seconds`` apart."""
        generated = _less(later.generated_tokens, earlier.generated_tokens)
        positions = zip_longest(later.accepted_by_position, earlier.accepted_by_position, fillvalue=0)
        return cls(
            generated_per_second=None if generated is None or seconds <= 0 else generated / seconds,
            prompt_tokens=_less(later.prompt_tokens, earlier.prompt_tokens),
            cached_tokens=_less(later.cached_tokens, earlier.cached_tokens),
            drafts=_less(later.drafts, earlier.drafts),
            accepted_tokens=_less(later.accepted_tokens, earlier.accepted_tokens),
            accepted_by_position=tuple(max(0, now - before) for now, before in positions),
            ttft=_since(later.ttft, earlier.ttft),
            itl=_since(later.itl, earlier.itl),
            queue=_since(later.queue, earlier.queue),
        )

    def plus(self, other: Rise) -> Rise:
        """Two engines together. What one of them does not say is what the other says, except for positions."""
        unplaced = any(one.drafts and not one.accepted_by_position for one in (self, other))
        positions = zip_longest(self.accepted_by_position, other.accepted_by_position, fillvalue=0)
        rates = [rate for rate in (self.generated_per_second, other.generated_per_second) if rate is not None]
        return Rise(
            generated_per_second=sum(rates) if rates else None,
            prompt_tokens=_more(self.prompt_tokens, other.prompt_tokens),
            cached_tokens=_more(self.cached_tokens, other.cached_tokens),
            drafts=_more(self.drafts, other.drafts),
            accepted_tokens=_more(self.accepted_tokens, other.accepted_tokens),
            accepted_by_position=() if unplaced else tuple(mine + theirs for mine, theirs in positions),
            ttft=_together(self.ttft, other.ttft),
            itl=_together(self.itl, other.itl),
            queue=_together(self.queue, other.queue),
        )

    @property
    def acceptance_length(self) -> float | None:
        """τ: tokens committed a verification step, the bonus token included. None: no step."""
        if not self.drafts or self.accepted_tokens is None:
            return None
        return 1.0 + self.accepted_tokens / self.drafts

    @property
    def acceptance_by_position(self) -> tuple[float, ...] | None:
        """Share of steps that accepted the token at each position of the draft. None: no step, or unknown."""
        if not self.drafts or not self.accepted_by_position:
            return None
        return tuple(accepted / self.drafts for accepted in self.accepted_by_position)

    @property
    def prefix_hit_rate(self) -> float | None:
        """Share of prompt tokens that a cache held. None: no prompt, or unknown."""
        if self.prompt_tokens is None or self.cached_tokens is None:
            return None
        every = self.prompt_tokens + self.cached_tokens
        return self.cached_tokens / every if every else None


class Pages:
    """One engine's pages: the last that is older than the window, and those within it."""

    def __init__(self) -> None:
        self._pages: deque[tuple[int, EngineMetrics]] = deque()

    def add(self, page: EngineMetrics, now: int) -> None:
        """Keep a page. One whose counters fell is of an engine that restarted: the pages before it are dropped."""
        if self._pages and _restarted(self._pages[-1][1], page):
            self._pages.clear()
        self._pages.append((now, page))
        while len(self._pages) > 1 and self._pages[1][0] <= now - WINDOW * 1000:
            self._pages.popleft()

    def latest(self, now: int) -> EngineMetrics | None:
        """The last page; None: there is none, or it is :data:`STALE`."""
        return self._pages[-1][1] if self._pages and now - self._pages[-1][0] < STALE else None

    def rise(self, now: int) -> Rise:
        """What happened within the window; all unknown where the last page is stale."""
        if self.latest(now) is None:
            return Rise()
        (begun, first), (ended, last) = self._pages[0], self._pages[-1]
        return Rise.between(first, last, (ended - begun) / 1000)


def _restarted(before: EngineMetrics, after: EngineMetrics) -> bool:
    counters = (
        (before.generated_tokens, after.generated_tokens),
        (before.cached_tokens, after.cached_tokens),
        (before.drafts, after.drafts),
    )
    return any(then is not None and now is not None and now < then for then, now in counters)


def _less(later: int | None, earlier: int | None) -> int | None:
    # What a normaliser got by subtraction may fall a little between two pages, since counters rise one after another.
    return None if later is None or earlier is None else max(0, later - earlier)


def _more(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else one + other


def _since(later: Distribution | None, earlier: Distribution | None) -> Distribution | None:
    return None if later is None or earlier is None else later.since(earlier)


def _together(one: Distribution | None, other: Distribution | None) -> Distribution | None:
    return other if one is None else one if other is None else one.plus(other)
