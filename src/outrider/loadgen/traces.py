"""Traces: who asks for what, when. One JSON object a line (JSONL); the format is on docs/reference/trace.md.

``{"at": 0.25, "input_tokens": 3000, "output_tokens": 100, "shared_prefix_tokens": 2000, "prefix_id": "a"}``
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from outrider.errors import InvalidTrace, NotFound
from outrider.loadgen.profiles import Shape
from outrider.loadgen.prompts import estimated_tokens

_MOST = 10**9
"""Of tokens and of seconds: beyond what any model reads and anybody waits for, and exact as a float."""

_REMEDY = "Make one: outrider sim trace --profile agentic > FILE"


class Arrival(NamedTuple):
    """One request of a trace.

    Attributes:
        at: seconds from the trace's start.
        shape: its lengths, and what its prompt shares with others.
        messages: the chat messages themselves, where the trace has them; the shape then shares nothing, since what two
            prompts have in common is in their texts.
    """

    at: float
    shape: Shape
    messages: tuple[dict[str, Any], ...] | None = None


def read_trace(path: Path) -> list[Arrival]:
    """Read a trace file, in the order of arrival.

    Raises:
        NotFound: there is no such file.
        InvalidTrace: it cannot be read, holds no request, or a line of it is none; names the line.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return parse_trace(file, str(path))
    except FileNotFoundError as error:
        raise NotFound(f"No trace {path}", remedy=_REMEDY) from error
    except UnicodeDecodeError as error:
        raise InvalidTrace(f"{path} cannot be read", why="it is no UTF-8 text", remedy=_REMEDY) from error
    except OSError as error:
        raise InvalidTrace(f"{path} cannot be read", why=error.strerror, remedy=_REMEDY) from error


def parse_trace(lines: Iterable[str], name: str) -> list[Arrival]:
    """Read the lines of a trace, in the order of arrival; empty ones are skipped.

    Args:
        lines: one request each.
        name: what errors call the trace.

    Raises:
        InvalidTrace: there is no request, or a line is none; names the line.
    """
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(_arrival(json.loads(line)))
            except (ValueError, RecursionError) as error:
                raise InvalidTrace(f"Line {number} of {name} is no request", why=str(error)) from error
    if not found:
        raise InvalidTrace(f"{name} holds no request", remedy=_REMEDY)
    return sorted(found, key=lambda arrival: arrival.at)


def write_trace(file: TextIO, arrivals: Iterable[Arrival]) -> None:
    """Write a trace that :func:`parse_trace` reads back, each line as its arrival comes."""
    for arrival in arrivals:
        file.write(json.dumps(fields(arrival)) + "\n")


def fields(arrival: Arrival) -> dict[str, Any]:
    """An arrival as the JSON object of its line; what is absent by default is left out."""
    shape = arrival.shape
    optional: dict[str, Any] = {
        "shared_prefix_tokens": shape.shared_prefix_tokens or None,
        "prefix_id": shape.prefix_id,
        "affinity_key": shape.affinity_key,
        "messages": arrival.messages,
    }
    return {
        "at": round(arrival.at, 6),
        "input_tokens": shape.input_tokens,
        "output_tokens": shape.output_tokens,
        **{name: value for name, value in optional.items() if value is not None},
    }


def _arrival(line: Any) -> Arrival:
    """Raises ValueError, which says what is wrong with which field."""
    if not isinstance(line, dict):
        raise ValueError("not a JSON object")
    at, messages = _seconds(line), _messages(line)
    estimate = None if messages is None else estimated_tokens(messages)
    shape = Shape(
        input_tokens=_count(line, "input_tokens", least=1, default=estimate),
        output_tokens=_count(line, "output_tokens", least=1),
        affinity_key=_text(line, "affinity_key"),
    )
    if messages is None:
        shape = _sharing(shape, _count(line, "shared_prefix_tokens", least=0, default=0), _text(line, "prefix_id"))
    return Arrival(at, shape, messages)


def _sharing(shape: Shape, shared: int, prefix: str | None) -> Shape:
    if shared > shape.input_tokens:
        raise ValueError(f"shared_prefix_tokens: {shared} of {shape.input_tokens} input_tokens, the whole prompt")
    if shared and prefix is None:
        raise ValueError("prefix_id: missing beside shared_prefix_tokens")
    return shape._replace(shared_prefix_tokens=shared, prefix_id=prefix)


def _seconds(line: dict[str, Any]) -> float:
    value = _given(line, "at", None)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:  # nor NaN
        raise ValueError(f"at: {value!r} is no number of seconds from 0 to 10⁹")
    return float(value)


def _count(line: dict[str, Any], name: str, *, least: int, default: int | None = None) -> int:
    value = _given(line, name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
        raise ValueError(f"{name}: {value!r} is no whole number from {least} to 10⁹")
    return value


def _given(line: dict[str, Any], name: str, default: int | None) -> Any:
    value = line.get(name)
    if value is None:
        value = default
    if value is None:
        raise ValueError(f"{name}: missing")
    return value


def _text(line: dict[str, Any], name: str) -> str | None:
    """Text of one line, as a header can carry it; numbers are taken for their digits, an empty one for none."""
    value = line.get(name)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).isprintable():
        raise ValueError(f"{name}: {value!r} is no line of text")
    return str(value)


def _messages(line: dict[str, Any]) -> tuple[dict[str, Any], ...] | None:
    messages = line.get("messages")
    if messages is None:
        return None
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        raise ValueError("messages: not a list of JSON objects")
    return tuple(messages)
