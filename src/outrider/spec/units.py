"""Quantities as people write them: ``2GiB``, ``512MB``, ``10m``, ``1h30m``."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SPANS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([a-z]*)")


def parse_size(value: Any) -> Any:
    """``"2GiB"`` → bytes (1 KiB is 1,024 bytes, 1 kB is 1,000); numbers pass. Raises ValueError."""
    if isinstance(value, bool):
        raise ValueError("a size like 2GiB or 512MB, or a number of bytes")
    if not isinstance(value, str):
        return value
    match = _NUMBER.fullmatch(value.strip().lower())
    if match is None or match[2] not in _SIZES:
        raise ValueError("a size like 2GiB or 512MB, or a number of bytes")
    if match[1].isdigit():  # whole numbers stay exact however large
        return int(match[1]) * _SIZES[match[2]]
    return int(float(match[1]) * _SIZES[match[2]])


def parse_span(value: Any) -> Any:
    """``"10m"`` or ``"1h30m"`` → seconds; numbers pass. Raises ValueError."""
    problem = "a duration like 300ms, 30s, 10m or 1h30m, or a number of seconds"
    if isinstance(value, bool):
        raise ValueError(problem)
    if not isinstance(value, str):
        return value
    text = value.strip().lower()
    if bare := _NUMBER.fullmatch(text):
        if bare[2] in ("", *_SPANS):
            return float(bare[1]) * _SPANS.get(bare[2], 1.0)
        raise ValueError(problem)
    if not re.fullmatch(r"([0-9]+h)?([0-9]+m)?([0-9]+s)?", text) or not text:
        raise ValueError(problem)
    return sum(float(number) * _SPANS[unit] for number, unit in re.findall(r"([0-9]+)([hms])", text))


SIZE_TEXT = r"^\s*[0-9]{1,18}(\.[0-9]{1,9})?\s*([kKmMgGtT][iI]?[bB]|[bB])?\s*$"
"""What :func:`parse_size` takes as text, for the JSON Schema."""
SPAN_TEXT = (
    r"^\s*([0-9]{1,18}(\.[0-9]{1,9})?\s*([mM]?[sS]|[mMhH])?|(?=[0-9])([0-9]+[hH])?([0-9]+[mM])?([0-9]+[sS])?)\s*$"
)
"""What :func:`parse_span` takes as text, for the JSON Schema."""

Bytes = Annotated[
    int, BeforeValidator(parse_size, json_schema_input_type=int | Annotated[str, Field(pattern=SIZE_TEXT)])
]
"""A number of bytes, or text such as ``2GiB``."""
Seconds = Annotated[
    float, BeforeValidator(parse_span, json_schema_input_type=float | Annotated[str, Field(pattern=SPAN_TEXT)])
]
"""A number of seconds, or text such as ``10m``."""
