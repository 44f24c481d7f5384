"""Traffic from a file: one JSON object a line (JSONL), each a request and when it comes.

``{"at": 0.25, "input_tokens": 3000, "output_tokens": 100, "shared_prefix_tokens": 2000, "prefix_id": "a"}``

``at`` is seconds from the start; ``shared_prefix_tokens`` (0), ``prefix_id`` (none) and ``affinity_key`` (none) may be
left out. Further fields are ignored, so that traces recorded elsewhere with more in them are read as they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from outrider.errors import InvalidInput
from outrider.loadgen.profiles import Shape

_REMEDY = 'Write one object a line: {"at": 0.0, "input_tokens": 512, "output_tokens": 128}.'


class Arrival(NamedTuple):
    """One request of a trace: ``at`` in seconds from the start, and its lengths."""

    at: float
    shape: Shape


def read_trace(path: Path) -> list[Arrival]:
    """Read a trace, in order of arrival.

    Raises:
        InvalidInput: the file cannot be read, is empty, or a line of it is no request; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise InvalidInput(f"{path} cannot be read", why=why, remedy="Give a file of JSON lines.") from error
    found = [_arrival(f"{path}:{number}", line) for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise InvalidInput(f"{path} holds no requests", why="the file is empty", remedy=_REMEDY)
    return sorted(found, key=lambda arrival: arrival.at)


def write_trace(path: Path, arrivals: Iterable[Arrival]) -> None:
    """Write a trace that :func:`read_trace` reads back."""
    with path.open("w", encoding="utf-8") as file:
        for arrival in arrivals:
            fields = {"at": round(arrival.at, 6), **arrival.shape._asdict()}
            file.write(json.dumps({name: value for name, value in fields.items() if value not in (None, "")}) + "\n")


def _arrival(where: str, line: str) -> Arrival:
    try:
        fields = json.loads(line)
    except ValueError:
        raise InvalidInput(f"{where} is no JSON", why=line.strip()[:80], remedy=_REMEDY) from None
    if not isinstance(fields, dict):
        raise InvalidInput(f"{where} is no request", why="it is no JSON object", remedy=_REMEDY)
    at = fields.get("at")
    if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at) or at < 0:
        raise InvalidInput(f"{where} is no request", why=f"at is {at!r}: seconds from the start", remedy=_REMEDY)
    shape = Shape(
        input_tokens=_count(where, fields, "input_tokens", least=1),
        output_tokens=_count(where, fields, "output_tokens", least=1),
        shared_prefix_tokens=_count(where, fields, "shared_prefix_tokens", least=0, default=0),
        prefix_id=_text(fields.get("prefix_id")),
        affinity_key=_text(fields.get("affinity_key")),
    )
    if shape.shared_prefix_tokens > shape.input_tokens:
        why = f"{shape.shared_prefix_tokens} shared tokens of {shape.input_tokens}"
        raise InvalidInput(f"{where} is no request", why=why, remedy="input_tokens is the whole prompt.")
    return Arrival(float(at), shape)


def _count(where: str, fields: dict[str, Any], name: str, *, least: int, default: int | None = None) -> int:
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        why = f"{name} is {value!r}: a whole number, {least} or more"
        raise InvalidInput(f"{where} is no request", why=why, remedy=_REMEDY)
    return value


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
