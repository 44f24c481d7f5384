"""Plain values as Python source, laid out as formatters do: whatever a string holds, it stays a string."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

WIDTH = 88
"""Columns before a container is opened up, one item a line: the narrowest of the usual formatters' defaults, so that
wider ones leave the file as it is (an opened container keeps its last comma, and with it its shape)."""


def literal(value: object, *, indent: int = 0, prefix: int = 0, suffix: int = 1) -> str:
    """Source that evaluates to ``value``.

    Args:
        indent: columns that the line holding the value is indented by.
        prefix: columns before the value on its line, after the indentation.
        suffix: columns after it (a comma).

    Raises:
        TypeError: not None, bool, int, float, str, or a sequence or mapping (with text for keys) of those.
        ValueError: NaN or infinity, which have no literal.
    """
    flat = _flat(value)
    if not isinstance(value, Mapping | list | tuple) or not value or indent + prefix + len(flat) + suffix <= WIDTH:
        return flat
    inner = indent + 4
    pad = " " * inner
    if isinstance(value, Mapping):
        items = [
            f"{pad}{_text(key)}: {literal(item, indent=inner, prefix=len(_text(key)) + 2)},"
            for key, item in value.items()
        ]
        opening, closing = "{", "}"
    else:
        items = [f"{pad}{literal(item, indent=inner)}," for item in value]
        opening, closing = ("(", ")") if isinstance(value, tuple) else ("[", "]")
    return "\n".join([opening, *items, " " * indent + closing])


def _flat(value: object) -> str:
    # Exact types: a subclass may say anything in its __repr__.
    if value is None or type(value) in (bool, int):
        return repr(value)
    if type(value) is float:
        if not math.isfinite(value):
            raise ValueError(f"{value} has no literal")
        return repr(value)
    if type(value) is str:
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_text(key)}: {_flat(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return _flat_sequence(value)
    raise TypeError(f"{type(value).__name__} has no literal here")


def _flat_sequence(value: Sequence[object]) -> str:
    inner = ", ".join(_flat(item) for item in value)
    if isinstance(value, tuple):
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return f"[{inner}]"


def _text(value: object) -> str:
    """A string literal in the quotes that need fewer escapes, double ones where it does not matter."""
    if type(value) is not str:
        raise TypeError(f"{type(value).__name__} is no text")
    quote = '"' if value.count('"') <= value.count("'") else "'"
    return quote + "".join(_character(character, quote) for character in value) + quote


def _character(character: str, quote: str) -> str:
    if character in (quote, "\\"):
        return f"\\{character}"
    return character if character.isprintable() else repr(character)[1:-1]
