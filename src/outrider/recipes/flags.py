"""The flags an engine takes: their types and bounds, and which are arguments of the engine's class in ``serve.py``.

A mistyped flag is found here, before anything starts. Engines that this version can run are the ones listed.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass

from outrider.engines.llamacpp_flags import EXTRA

FlagValue = bool | int | float | str


@dataclass(frozen=True, slots=True)
class FlagKind:
    """What one flag may be.

    Attributes:
        type: of its value; a float flag takes whole numbers too.
        least: smallest number allowed, or None.
        argument: whether it is an argument of the engine's class; else it goes into ``extra``.
    """

    type: type
    least: float | None = None
    argument: bool = False


LLAMACPP_ARGUMENTS = {
    "threads": FlagKind(int, 1, argument=True),
    "slots": FlagKind(int, 1, argument=True),
    "context": FlagKind(int, 1, argument=True),
    "embeddings": FlagKind(bool, argument=True),
    "batch_size": FlagKind(int, 1, argument=True),
    "micro_batch_size": FlagKind(int, 1, argument=True),
    "cache_prompt": FlagKind(bool, argument=True),
    "prompt_cache_mib": FlagKind(int, 0, argument=True),
    "flash_attention": FlagKind(str, argument=True),
}
"""``LlamaCpp``'s arguments; a test compares them with its signature."""

ENGINES: dict[str, dict[str, FlagKind]] = {
    "llamacpp": LLAMACPP_ARGUMENTS
    | {name: FlagKind(kind if isinstance(kind, type) else str) for name, kind in EXTRA.items()}
}
"""Engines that this version runs, and their flags; the values of enums are checked by the engine itself."""


def complaint(engine: str, name: str, value: object) -> tuple[str, str | None] | None:
    """Why a flag cannot have a value, with the nearest name where that is the trouble; None: it can."""
    known = ENGINES[engine]
    kind = known.get(name)
    if kind is None:
        near = difflib.get_close_matches(name.replace("-", "_"), known, 1)
        return f"{engine} has no such flag; known: {', '.join(sorted(known))}", near[0] if near else None
    fitting = (int, float) if kind.type is float else (kind.type,)
    if not isinstance(value, fitting) or (isinstance(value, bool) and kind.type is not bool):
        return f"must be {_TYPES[kind.type]}", None
    if isinstance(value, float) and not math.isfinite(value):
        return "must be finite", None
    if kind.least is not None and isinstance(value, int | float) and value < kind.least:
        return f"must be {kind.least:g} or more", None
    return None


def is_argument(engine: str, name: str) -> bool:
    """Whether a flag is an argument of the engine's class (else it goes into ``extra``)."""
    return ENGINES[engine][name].argument


_TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
