"""Pydantic's errors as ours: every bad field, its value, what is allowed, the nearest spelling."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from outrider.errors import Problem

_SHOWN = 80


def problems(model: type[BaseModel], errors: Iterable[ErrorDetails]) -> list[Problem]:
    """One :class:`Problem` for each bad field."""
    return [_problem(model, error) for error in errors]


def _problem(model: type[BaseModel], error: ErrorDetails) -> Problem:
    path = [str(part) for part in error["loc"] if not str(part).startswith("function-")]
    field = ".".join(path) or "(whole)"
    value = repr(error["input"])[:_SHOWN]
    if error["type"] == "extra_forbidden":
        known = _fields(model, path[:-1])
        return _named(field, value, f"unknown; known: {', '.join(known)}", _nearest(path[-1], known))
    if error["type"] == "missing":
        return _named(field, None, "required", None)
    allowed = re.sub(r"^Value error, ", "", error["msg"])
    choices = re.findall(r"'([^']+)'", str((error.get("ctx") or {}).get("expected", ""))) or re.findall(r"\w+", allowed)
    return _named(
        field, value, allowed, _nearest(str(error["input"]), choices) if isinstance(error["input"], str) else None
    )


def _named(field: str, value: str | None, allowed: str, nearest: str | None) -> Problem:
    message = f"{field}: {allowed}" if value is None else f"{field} = {value}: {allowed}"
    if nearest:
        message += f" (did you mean {nearest!r}?)"
    return Problem(field=field, value=value, allowed=allowed, nearest=nearest, message=message)


def _nearest(text: str, known: Iterable[str]) -> str | None:
    found = difflib.get_close_matches(text, list(known), 1, 0.6)
    return found[0] if found and found[0] != text else None


def _fields(model: type[BaseModel], path: list[str]) -> list[str]:
    fields: Mapping[str, Any] = model.model_fields
    for part in path:
        inner = fields[part].annotation if part in fields else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        fields = inner.model_fields
    return list(fields)
