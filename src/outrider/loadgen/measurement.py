"""One request of a benchmark, as measured by its client."""

from __future__ import annotations

from typing import Any, NamedTuple

from outrider.loadgen.answers import Answer
from outrider.loadgen.profiles import Shape
from outrider.metrics.record import itl


class Measurement(NamedTuple):
    """One request. Durations are seconds; what did not happen is None.

    Attributes:
        target: which target it went to, counted from 0.
        number: which request of that target.
        scheduled: when it was due, on the run's clock; in a closed loop when it was sent.
        sent: when it was sent. In an open loop, ``sent`` − ``scheduled`` is this client's own lag.
        ended: when the last byte came, or it failed.
        shape: the lengths asked for.
        status: HTTP status, 0 where none came.
        error: one line, None where it ended well.
        ttft: scheduled to first content event, as a user feels it.
        itl: (last − first content event) ÷ (completion tokens − 1).
        e2e: scheduled to last byte.
        event_gap: median gap between content events; with speculation not the ITL.
        events: content events.
        prompt_tokens, cached_tokens: as the server counted.
        completion_tokens: as the server counted, else the number of content events (``counted`` is False then).
        counted: whether the server counted.
        first, last: when the first and the last content event came, on the run's clock.
    """

    target: int
    number: int
    scheduled: float
    sent: float
    ended: float
    shape: Shape
    status: int
    error: str | None
    ttft: float | None
    itl: float | None
    e2e: float | None
    event_gap: float | None
    events: int
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int
    counted: bool
    first: float | None
    last: float | None

    @property
    def ok(self) -> bool:
        """It ended well and brought content."""
        return self.error is None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return self._asdict() | {"shape": self.shape._asdict()}


def measured(
    *,
    target: int,
    number: int,
    shape: Shape,
    scheduled: float,
    sent: float,
    ended: float,
    status: int,
    answer: Answer,
    error: str | None,
) -> Measurement:
    """Put a measurement together from what was seen of one request."""
    failure = error or answer.error or _incomplete(answer)
    counted = answer.completion_tokens is not None
    tokens = answer.completion_tokens if answer.completion_tokens is not None else answer.events
    return Measurement(
        target=target,
        number=number,
        scheduled=scheduled,
        sent=sent,
        ended=ended,
        shape=shape,
        status=status,
        error=failure,
        ttft=None if answer.first is None or failure else answer.first - scheduled,
        itl=None if failure else itl(answer.first, answer.last, tokens),
        e2e=None if failure else ended - scheduled,
        event_gap=sorted(answer.gaps)[len(answer.gaps) // 2] if answer.gaps and not failure else None,
        events=answer.events,
        prompt_tokens=answer.prompt_tokens,
        cached_tokens=answer.cached_tokens,
        completion_tokens=tokens,
        counted=counted,
        first=answer.first,
        last=answer.last,
    )


def _incomplete(answer: Answer) -> str | None:
    if answer.first is None:
        return "the answer held no content"
    return None if answer.done else "the stream ended before [DONE]"
