"""What keys use, from the records that gateways report: gathered in memory, added to the store once a round."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

from outrider.metrics.record import Outcome
from outrider.store.database import Database
from outrider.store.usage import Usage, Used

_STEPS = 100
"""A budget is reported to gateways in hundredths: each step is a new table, and they count between steps themselves."""


class Metering:
    """Thread-safe: records come in the event loop, sums are written beside it."""

    def __init__(self, database: Database) -> None:
        self._usage = Usage(database)
        self._pending: dict[str, Used] = {}
        self._lock = Lock()

    def take(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Gather finished requests."""
        with self._lock:
            self._merge(counted(records))

    def flush(self) -> dict[str, Used]:
        """Write what was gathered; the sums of every key. What cannot be written is gathered still."""
        with self._lock:
            pending, self._pending = self._pending, {}
        try:
            if pending:
                self._usage.add(pending)
        except BaseException:
            with self._lock:
                self._merge(pending)
            raise
        return self._usage.all()

    def _merge(self, used: Mapping[str, Used]) -> None:
        for key, more in used.items():
            self._pending[key] = self._pending.get(key, Used()).plus(more)


def counted(records: Iterable[Mapping[str, Any]]) -> dict[str, Used]:
    """Usage by key id. Requests that the gateway refused, and those without a key, are left out."""
    used: dict[str, Used] = {}
    for record in records:
        key = record.get("key")
        if key is not None and record.get("outcome") != Outcome.REFUSED:
            more = Used(1, int(record.get("prompt_tokens") or 0), int(record.get("completion_tokens") or 0))
            used[key] = used.get(key, Used()).plus(more)
    return used


def spent(limits: Mapping[str, Any], used: Used) -> dict[str, Any]:
    """The limits of a key as gateways get them: beside a budget what is spent of it, rounded down to its hundredths."""
    budget = limits.get("budget_tokens")
    if not budget:
        return dict(limits)
    step = max(1, budget // _STEPS)
    tokens = used.tokens if used.tokens >= budget else used.tokens // step * step
    return {**limits, "spent_tokens": min(tokens, budget)}
