"""Quantities as people write them: ``2GiB``, ``512MB``, ``10m``, ``30s``."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

_SIZES = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_SIZES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SPANS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


def parse_size(value: Any) -> Any:
    """``"2GiB"`` → bytes; numbers pass."""
    if not isinstance(value, str):
        return value
    match = _NUMBER.fullmatch(value)
    if match is None or match[2].lower() not in _SIZES:
        raise ValueError("a size like 2GiB or 512MB, or a number of bytes")
    return int(float(match[1]) * _SIZES[match[2].lower()])


def parse_span(value: Any) -> Any:
    """``"10m"`` → seconds; numbers pass."""
    if not isinstance(value, str):
        return value
    match = _NUMBER.fullmatch(value)
    if match is None or match[2].lower() not in _SPANS:
        raise ValueError("a duration like 300ms, 30s or 10m, or a number of seconds")
    return float(match[1]) * _SPANS[match[2].lower()]


Bytes = Annotated[int, BeforeValidator(parse_size)]
Seconds = Annotated[float, BeforeValidator(parse_span)]
