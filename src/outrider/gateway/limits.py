"""How much a key may use: requests and tokens a minute as token buckets, and a budget for its whole life.

What a request will cost is known only when it is over, so a claim is taken for its estimate when it comes, and settled
by the engine's own count when it ends. A limit holds for one gateway process.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from outrider.errors import AccessDenied
from outrider.gateway.table import Key, Limits

_MINUTE = 60.0


class LimitReached(AccessDenied):
    """A key has used what it may for now. ``details["headers"]`` says when there is more."""

    code = "rate_limit_exceeded"
    status = 429


class BudgetSpent(AccessDenied):
    """A key has used all that it ever may. The code is OpenAI's for it."""

    code = "insufficient_quota"
    status = 429


class Bucket(NamedTuple):
    """A token bucket: it fills at a steady rate up to a minute's worth, so that a burst may use a whole minute at once.

    Attributes:
        per_minute: its size, and what flows in within a minute.
        level: what was in it; below zero where requests cost more than was claimed for them.
        at: monotonic seconds when that was so.
    """

    per_minute: int
    level: float
    at: float

    def now(self, at: float) -> Bucket:
        """The same bucket later."""
        if at <= self.at:
            return self
        filled = self.level + (at - self.at) * self.per_minute / _MINUTE
        return Bucket(self.per_minute, filled if filled < self.per_minute else float(self.per_minute), at)

    def less(self, amount: float) -> Bucket:
        """With so much taken out, or with a negative amount put back."""
        level = self.level - amount
        return Bucket(self.per_minute, level if level < self.per_minute else float(self.per_minute), self.at)

    def wait(self, amount: float) -> float:
        """Seconds until so much can be taken; what exceeds the whole bucket can be taken when it is full."""
        missing = (amount if amount < self.per_minute else self.per_minute) - self.level
        return missing * _MINUTE / self.per_minute if missing > 0 else 0.0


class Claim(NamedTuple):
    """What a request was let in with.

    Attributes:
        key: id of the key.
        tokens: claimed for it.
        head: header lines that tell the client what is left.
    """

    key: str
    tokens: int
    head: bytes


class _Meter:
    """What one key has used in this process."""

    __slots__ = ("limits", "requests", "spent", "tokens")

    def __init__(self, limits: Limits, at: float) -> None:
        self.limits = limits
        self.spent = 0
        self.requests = _full(limits.requests_per_minute, at)
        self.tokens = _full(limits.tokens_per_minute, at)

    def adopt(self, limits: Limits, at: float) -> None:
        """Go on under changed limits: a bucket whose size changes keeps what was taken from it."""
        self.limits = limits
        self.requests = _resized(self.requests, limits.requests_per_minute, at)
        self.tokens = _resized(self.tokens, limits.tokens_per_minute, at)


class Meters:
    """The meters of all keys that have limits. Keys without cost nothing."""

    def __init__(self) -> None:
        self._meters: dict[str, _Meter] = {}

    def claim(self, key: Key | None, tokens: int, now: float) -> Claim | None:
        """Count a request in, or refuse it. None for one that no limit holds for.

        Args:
            key: it came with.
            tokens: that it will take, as estimated.
            now: monotonic seconds.

        Raises:
            LimitReached: over requests or tokens a minute.
            BudgetSpent: over the budget.
        """
        if key is None or not key.limits.bounded:
            return None
        meter = self._meters.get(key.id)
        if meter is None:
            meter = self._meters[key.id] = _Meter(key.limits, now)
        elif meter.limits is not key.limits:
            meter.adopt(key.limits, now)
        budget = key.limits.budget_tokens
        if budget is not None and max(meter.spent, key.limits.spent_tokens) >= budget:
            raise _spent(key, budget)
        requests = None if meter.requests is None else meter.requests.now(now)
        used = None if meter.tokens is None else meter.tokens.now(now)
        wait = requests.wait(1) if requests is not None else 0.0
        if used is not None and (longer := used.wait(tokens)) > wait:
            wait = longer
        if wait:
            raise _reached(key, requests, used, tokens, wait)
        meter.requests = requests.less(1) if requests is not None else None
        meter.tokens = used.less(tokens) if used is not None else None
        meter.spent += tokens
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers(meter.requests, meter.tokens))
        return Claim(key.id, tokens, lines.encode("ascii"))

    def settle(self, claim: Claim, prompt: int | None, completion: int | None, *, answered: bool) -> None:
        """A request is over: what was claimed is replaced by what it took.

        Without a count by the engine the claim stands where an answer had begun, so that nobody reads for nothing by
        hanging up before the last event; where none had, it is given back.
        """
        meter = self._meters.get(claim.key)
        counted = prompt is not None or completion is not None
        if meter is None or (answered and not counted):
            return
        excess = (prompt or 0) + (completion or 0) - claim.tokens
        meter.spent += excess
        if meter.tokens is not None:
            meter.tokens = meter.tokens.less(excess)

    def retain(self, keys: Iterable[str]) -> None:
        """Forget the meters of all keys but these."""
        live = set(keys)
        for key in [key for key in self._meters if key not in live]:
            del self._meters[key]


def headers(requests: Bucket | None, tokens: Bucket | None) -> list[tuple[str, str]]:
    """What is left of a minute, in OpenAI's form: the limit, what remains, and how long until all of it is there."""
    lines = []
    for name, bucket in (("requests", requests), ("tokens", tokens)):
        if bucket is not None:
            lines += [
                (f"x-ratelimit-limit-{name}", str(bucket.per_minute)),
                (f"x-ratelimit-remaining-{name}", str(max(0, int(bucket.level)))),
                (f"x-ratelimit-reset-{name}", span(bucket.wait(bucket.per_minute))),
            ]
    return lines


def span(seconds: float) -> str:
    """A duration as OpenAI writes it: ``20ms``, ``1.5s``, ``6m0s``."""
    if not seconds:
        return "0s"
    milliseconds = ceil(seconds * 1000 - 1e-6)
    if milliseconds < 1000:
        return f"{milliseconds}ms" if milliseconds else "0s"
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes}m{rest / 1000:g}s" if minutes else f"{rest / 1000:g}s"


def _full(per_minute: int | None, at: float) -> Bucket | None:
    return None if per_minute is None else Bucket(per_minute, float(per_minute), at)


def _resized(bucket: Bucket | None, per_minute: int | None, at: float) -> Bucket | None:
    if bucket is None or per_minute is None or bucket.per_minute == per_minute:
        return bucket if per_minute is not None and bucket is not None else _full(per_minute, at)
    old = bucket.now(at)
    return Bucket(per_minute, per_minute - (old.per_minute - old.level), at)


def _reached(key: Key, requests: Bucket | None, tokens: Bucket | None, wanted: int, wait: float) -> LimitReached:
    if requests is not None and requests.wait(1) >= (tokens.wait(wanted) if tokens else 0.0):
        what, why = "requests", f"limit {requests.per_minute} requests a minute"
    else:
        limit = tokens.per_minute if tokens else 0
        what, why = "tokens", f"limit {limit} tokens a minute, requested about {wanted}"
    lines = [*headers(requests, tokens), ("retry-after", str(max(1, ceil(wait))))]
    return LimitReached(
        f"Key {key.name!r} is over its limit of {what}",
        why=why,
        remedy=f"Try again in {span(wait)}.",
        details={"headers": lines},
    )


def _spent(key: Key, budget: int) -> BudgetSpent:
    return BudgetSpent(
        f"Key {key.name!r} has spent its budget",
        why=f"it may use {budget} tokens in all",
        remedy="Ask for a key with a larger one: outrider key create NAME --budget-tokens N.",
        details={"headers": [("x-should-retry", "false")]},  # OpenAI's clients would otherwise try again
    )
