"""Problem details (RFC 9457) back into the exceptions they were made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from outrider.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    InvalidSpec,
    NotFound,
    OutriderError,
    Problem,
    Unauthorized,
    Unavailable,
)

_BY_STATUS: dict[int, type[OutriderError]] = {
    400: InvalidInput,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    422: InvalidInput,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def rebuild(problem: Mapping[str, Any]) -> OutriderError:
    """The exception of a problem's ``code``; of its ``status`` where the code is of a newer Outrider."""
    kind = _kinds().get(str(problem.get("code")))
    if kind is None:
        status = problem.get("status")
        kind = _BY_STATUS.get(status, OutriderError) if isinstance(status, int) else OutriderError
    what = str(problem.get("title") or "The controller reported an error")
    why, remedy = _text(problem.get("detail")), _text(problem.get("remedy"))
    details = problem.get("details")
    facts: dict[str, Any] = dict(details) if isinstance(details, Mapping) else {}
    if kind is InvalidSpec:
        found = facts.get("problems")
        listed = [Problem(entry) for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []
        return InvalidSpec(what, listed or [Problem(message=why or "no field was named")], remedy=remedy)
    return kind(what, why=why, remedy=remedy, details=facts)


def _kinds() -> dict[str, type[OutriderError]]:
    every: list[type[OutriderError]] = [OutriderError, *_under(OutriderError)]
    return {kind.code: kind for kind in every}


def _under(kind: type[OutriderError]) -> Iterator[type[OutriderError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _under(child)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
