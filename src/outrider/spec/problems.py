"""Pydantic's errors as ours: every bad field, its value, what is allowed, the nearest valid spelling."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from outrider.errors import Problem

_SHOWN = 80
_CLOSE = 0.6
"""difflib's own default: two of three letters right."""


def problems(model: type[BaseModel], errors: Iterable[ErrorDetails]) -> list[Problem]:
    """One :class:`Problem` for each bad field, in the order of the fields; a union's several complaints are joined."""
    found: dict[str, Problem] = {}
    for error in errors:
        problem = _problem(model, error)
        field = problem["field"]
        if field in found and found[field]["value"] == problem["value"]:
            first = found[field]
            if problem["allowed"] not in first["allowed"]:
                allowed = f"{first['allowed']}; or {problem['allowed']}"
                found[field] = _named(field, first["value"], allowed, first["nearest"] or problem["nearest"])
        else:
            found[field] = problem
    return list(found.values())


def _problem(model: type[BaseModel], error: ErrorDetails) -> Problem:
    path = _path(model, error["loc"])
    field = ".".join(part or "''" for part in path) or "(whole)"
    if error["type"] == "extra_forbidden":
        known = list(_fields(model, path[:-1]))
        return _named(field, _shown(error["input"]), f"unknown; known: {', '.join(known)}", _nearest(path[-1], known))
    if error["type"] == "missing":
        return _named(field, None, "required", None)
    if error["type"] in ("model_type", "dict_type", "model_attributes_type"):
        return _named(field, _shown(error["input"]), "a mapping of names to values", None)
    allowed = re.sub(r"^Value error, |^Input should be ", "", error["msg"])
    context, text = error.get("ctx") or {}, error["input"]
    choices = re.findall(r"'([^']+)'", str(context.get("expected", ""))) or _words(allowed)
    near = context.get("nearest") or (_nearest(text, choices) if isinstance(text, str) else None)
    return _named(field, _shown(text), allowed, near)


def _named(field: str, value: str | None, allowed: str, nearest: str | None) -> Problem:
    message = f"{field}: {allowed}" if value is None else f"{field} = {value}: {allowed}"
    if nearest and f"Try {nearest!r}" not in allowed:
        message += f" (did you mean {nearest!r}?)"
    return Problem(field=field, value=value, allowed=allowed, nearest=nearest, message=message)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _words(allowed: str) -> list[str]:
    """The plain words offered by one of our own messages (``one of auto, off, …``)."""
    listed = re.search(r"one of ([\w, -]+)", allowed)
    return re.findall(r"[\w-]+", listed[1]) if listed else []


def _nearest(text: str, known: Iterable[str]) -> str | None:
    names = [name for name in known if name != text]
    folded = {name.lower().replace("-", "_"): name for name in names}
    close = difflib.get_close_matches(text.lower().replace("-", "_"), folded, 1, _CLOSE)
    return folded[close[0]] if close else None


def _path(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The dotted path as a user wrote it: without the names that pydantic adds for members of unions and validators."""
    path: list[str] = []
    inner: Any = model
    for part in loc:
        arguments = [argument for argument in _members(inner) if argument is not type(None)]
        models = [a for a in arguments if isinstance(a, type) and issubclass(a, BaseModel)]
        if models and isinstance(part, str):
            path.append(part)
            field = models[0].model_fields.get(part)
            inner = field.annotation if field else None
        elif arguments and (container := next((a for a in arguments if typing.get_origin(a) in _CONTAINERS), None)):
            path.append(str(part))
            inner = (
                typing.get_args(container)[-1]
                if typing.get_origin(container) is dict
                else typing.get_args(container)[0]
            )
        elif inner is None:
            path.append(str(part))
    return path


_CONTAINERS = (dict, tuple, list)


def _members(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _fields(model: type[BaseModel], path: list[str]) -> Mapping[str, Any]:
    """The fields of the model that a path leads to; none where it leads out of the models."""
    inner: Any = model
    for part in path:
        for candidate in _members(inner):
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                field = candidate.model_fields.get(part)
                inner = field.annotation if field else None
                break
            if typing.get_origin(candidate) in _CONTAINERS:
                arguments = typing.get_args(candidate)
                inner = arguments[-1] if typing.get_origin(candidate) is dict else arguments[0]
                break
        else:
            return {}
    models = [c for c in _members(inner) if isinstance(c, type) and issubclass(c, BaseModel)]
    return models[0].model_fields if models else {}
