"""What waiting for a revision comes to: a pure function of the views seen one after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from outrider.cli.text import size, span

STAGES = ("pending", "preparing", "starting", "warming", "ready")


@dataclass(frozen=True, slots=True)
class Span:
    """One stage that the awaited replica was in.

    Attributes:
        begun, ended: seconds of the caller's clock; ended None: it is in it now.
        detail: what the runner says it does.
        done, total: bytes, None where none are waited for.
        first: when bytes were first reported and how many, to tell the speed of this run and not of a resumed file.
    """

    stage: str
    begun: float
    ended: float | None = None
    detail: str = ""
    done: int | None = None
    total: int | None = None
    first: tuple[float, int] | None = None

    def seconds(self, now: float) -> float:
        """How long it took, or has taken by now."""
        return (now if self.ended is None else self.ended) - self.begun

    def speed(self, now: float) -> float | None:
        """Bytes a second, None before there is something to divide."""
        if self.first is None or self.done is None:
            return None
        seconds = (now if self.ended is None else self.ended) - self.first[0]
        return (self.done - self.first[1]) / seconds if seconds > 0 and self.done > self.first[1] else None


@dataclass(frozen=True, slots=True)
class Watch:
    """Waiting for one revision of an endpoint to serve.

    Attributes:
        spans: the stages so far, in order; a replica that died and came again adds its stages anew.
        outcome: waiting, ready, failed (with its ``reason``) or overtaken (by a newer revision, or a stop).
    """

    endpoint: str
    revision: int
    begun: float
    spans: tuple[Span, ...] = ()
    outcome: str = "waiting"
    reason: str = ""

    def see(self, view: Mapping[str, Any], now: float) -> Watch:
        """The state after another look at the endpoint."""
        outcome, reason = _outcome(view, self.revision)
        if outcome != "waiting":
            spans = _closed(self.spans, now)
            if outcome == "ready":
                spans = (*_passed(spans, "ready", now), Span("ready", now, now))
            return replace(self, spans=spans, outcome=outcome, reason=reason)
        replica = _behind(view, self.revision)
        stage = str(replica.get("stage")) if replica else "pending"
        if stage not in STAGES or (stage == "pending" and not self.spans):
            return self
        return replace(self, spans=_advanced(self.spans, stage, replica or {}, now))


def lines(before: Watch, after: Watch) -> list[str]:
    """What to print where no display can be redrawn: a line for each stage entered since, and the bytes of one left."""
    told = len(before.spans)
    shown = []
    if told and before.spans[-1].ended is None:
        shown += _left(after.spans[told - 1], after.begun)
    for entered in after.spans[told:]:
        shown += [_line(entered, after.begun), *_left(entered, after.begun)]
    return shown


def _outcome(view: Mapping[str, Any], revision: int) -> tuple[str, str]:
    present = view.get("revision") or {}
    number = present.get("number")
    if isinstance(number, int) and number > revision:
        return "overtaken", f"revision {number} was made meanwhile"
    if number != revision:
        return "failed", f"revision {revision} was given up, revision {number} is back"
    if view.get("desired") == "stopped":
        return "overtaken", "it was stopped meanwhile"
    if present.get("status") == "failed":
        return "failed", str(view.get("reason") or "it did not say why")
    if present.get("status") == "active" and view.get("state") == "ready":
        return "ready", ""
    return "waiting", ""


def _behind(view: Mapping[str, Any], revision: int) -> Mapping[str, Any] | None:
    """The replica that is furthest from ready: the one that is waited for."""
    rising = [r for r in view.get("replicas", ()) if r.get("revision") == revision and r.get("stage") in STAGES]
    return min(rising, key=lambda replica: STAGES.index(replica["stage"]), default=None)


def _advanced(spans: tuple[Span, ...], stage: str, replica: Mapping[str, Any], now: float) -> tuple[Span, ...]:
    progress = replica.get("progress") or {}
    done, total = progress.get("done"), progress.get("total")
    if spans and spans[-1].stage == stage:
        last = spans[-1]
        # A new file starts its count again: so does the speed.
        fresh = done is not None and (last.first is None or last.done is None or done < last.done)
        first = (now, int(done)) if done is not None and fresh else last.first
        keep = done if done is not None else last.done
        detail = str(replica.get("detail") or last.detail)
        return (*spans[:-1], replace(last, detail=detail, done=keep, total=total or last.total, first=first))
    first = (now, int(done)) if done is not None else None
    detail = str(replica.get("detail") or "")
    return (*_passed(_closed(spans, now), stage, now), Span(stage, now, None, detail, done, total, first))


def _passed(spans: tuple[Span, ...], stage: str, now: float) -> tuple[Span, ...]:
    """With the stages that came and went between two looks, so that each is named."""
    last = STAGES.index(spans[-1].stage) if spans else 0
    return (*spans, *(Span(name, now, now) for name in STAGES[last + 1 : STAGES.index(stage)]))


def _closed(spans: tuple[Span, ...], now: float) -> tuple[Span, ...]:
    return (*spans[:-1], replace(spans[-1], ended=now)) if spans and spans[-1].ended is None else spans


def _line(entered: Span, begun: float) -> str:
    total = f" ({size(entered.total)})" if entered.total else ""
    return f"{span(entered.begun - begun):>8}  {entered.stage:<9}  {entered.detail}{total}".rstrip()


def _left(entry: Span, begun: float) -> list[str]:
    if entry.ended is None or not entry.done:
        return []
    return [f"{span(entry.ended - begun):>8}  {entry.stage:<9}  {size(entry.total or entry.done)} done"]
