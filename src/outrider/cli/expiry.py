"""When something expires, as people write it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from outrider.errors import UsageError

_SPAN = re.compile(r"(\d{1,6})\s*([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def expiry(text: str, now: datetime) -> int:
    """``30d`` from now, a date (from its first moment on, in UTC) or a moment in ISO 8601 → UTC ms.

    Raises:
        UsageError: it is none of these, or has passed.
    """
    remedy = "Write 12h, 30d, 8w, or a date like 2030-01-31."
    span = _SPAN.fullmatch(text.strip().lower())
    try:
        if span is not None:
            when = now + timedelta(**{_UNITS[span[2]]: int(span[1])})
        else:
            when = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{text!r} is no moment to expire at", remedy=remedy) from error
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    if when <= now:
        raise UsageError(f"{text!r} has passed already", remedy=remedy)
    return int(when.timestamp() * 1000)
