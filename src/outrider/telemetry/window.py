"""Requests that finished within the last minute, added up. Pure: time comes in, UTC ms.

They are kept a second apart, so that what grows old can be left out; a sum costs at most a slot a second.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.metrics.histograms import Histogram
from outrider.metrics.record import Outcome

WINDOW = 60
"""Seconds: long enough for a p95 at a request a second, short enough that a change is seen within a minute."""

_SLOT = 1000


class Tally:
    """What some finished requests add up to.

    Attributes:
        requests: that a replica answered or should have: all but the refused.
        failed: of those, with a status of 500 or above, broken off by the replica, or ended for taking too long.
        refused: that the gateway answered itself.
        ttft, itl: of the streams whose engine counted their tokens, as the gateway measured them.
        e2e: of the requests that went through whole.
    """

    __slots__ = (
        "_completion_tokens",
        "_counted",
        "_prompt_tokens",
        "e2e",
        "failed",
        "itl",
        "refused",
        "requests",
        "ttft",
    )

    def __init__(self) -> None:
        self.requests = 0
        self.failed = 0
        self.refused = 0
        self.ttft = Histogram()
        self.itl = Histogram()
        self.e2e = Histogram()
        self._counted = 0
        self._prompt_tokens = 0
        self._completion_tokens = 0

    @property
    def prompt_tokens(self) -> int | None:
        """Of the requests whose tokens the engine counted; None: there were requests, and it counted none."""
        return self._prompt_tokens if self._counted or not self.requests else None

    @property
    def completion_tokens(self) -> int | None:
        """As :attr:`prompt_tokens`."""
        return self._completion_tokens if self._counted or not self.requests else None

    def add(self, record: Mapping[str, Any]) -> None:
        """Count one record of the gateway (:class:`~outrider.metrics.record.RequestRecord` as JSON)."""
        outcome = record["outcome"]
        if outcome == Outcome.REFUSED:
            self.refused += 1
            return
        self.requests += 1
        self.failed += outcome in (Outcome.FAILED, Outcome.UPSTREAM_GONE, Outcome.TIMED_OUT)
        prompt, completion = record["prompt_tokens"], record["completion_tokens"]
        if prompt is not None or completion is not None:
            self._counted += 1
            self._prompt_tokens += prompt or 0
            self._completion_tokens += completion or 0
        if record["ttft"] is not None:
            self.ttft.observe(record["ttft"])
        if record["itl"] is not None:
            self.itl.observe(record["itl"])
        if outcome == Outcome.OK:
            self.e2e.observe(record["e2e"])

    def merge(self, other: Tally) -> None:
        """Add another's counts to this one."""
        for mine, theirs in ((self.ttft, other.ttft), (self.itl, other.itl), (self.e2e, other.e2e)):
            mine.merge(theirs)
        self.requests += other.requests
        self.failed += other.failed
        self.refused += other.refused
        self._counted += other._counted
        self._prompt_tokens += other._prompt_tokens
        self._completion_tokens += other._completion_tokens


class Window:
    """The requests of one replica, or those that reached none, that finished within :data:`WINDOW`."""

    def __init__(self) -> None:
        self._slots: dict[int, Tally] = {}

    def add(self, record: Mapping[str, Any], now: int) -> None:
        """Count one request at the second in which it ended. One that ended before the window is left out."""
        slot = min(ended(record), now) // _SLOT
        if slot < _oldest(now):
            return
        if slot not in self._slots:
            self._slots[slot] = Tally()
        self._slots[slot].add(record)

    def sum(self, now: int) -> Tally:
        """What finished within the window; what is older is forgotten."""
        total, oldest = Tally(), _oldest(now)
        for slot in [slot for slot in self._slots if slot < oldest]:
            del self._slots[slot]
        for tally in self._slots.values():
            total.merge(tally)
        return total

    def empty(self, now: int) -> bool:
        """Whether nothing finished within the window."""
        return all(slot < _oldest(now) for slot in self._slots)


def ended(record: Mapping[str, Any]) -> int:
    """When a request's last byte went out, UTC ms."""
    return int(record["at"] + record["e2e"] * 1000)


def covered(begun: int, now: int) -> float:
    """Seconds that the window covers: :data:`WINDOW` (a part of the running second less), or since ``begun`` (UTC ms).

    At least 1, so that a rate is not made of a moment.
    """
    return max(1.0, (now - max(begun, _oldest(now) * _SLOT)) / 1000)


def _oldest(now: int) -> int:
    return now // _SLOT - WINDOW + 1
