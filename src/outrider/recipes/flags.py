"""The flags an engine takes: their types and bounds, and which are arguments of the engine's class in ``serve.py``.

A mistyped flag is found here, before anything starts.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from outrider.engines.flags import flags
from outrider.engines.llamacpp_flags import EXTRA, foreign
from outrider.engines.sglang import SGLang
from outrider.engines.vllm import VLLM

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
    "shared_prefix": FlagKind(str, argument=True),
}
"""``LlamaCpp``'s arguments; a test compares them with its signature."""

_SHARED_ARGUMENTS = {
    "dtype": FlagKind(str, argument=True),
    "quantization": FlagKind(str, argument=True),
    "context": FlagKind(int, 1, argument=True),
    "slots": FlagKind(int, 1, argument=True),
    "batch_size": FlagKind(int, 1, argument=True),
    "gpus": FlagKind(int, 1, argument=True),
    "memory_share": FlagKind(float, 0, argument=True),
    "kv_cache_type": FlagKind(str, argument=True),
    "cache_prompt": FlagKind(bool, argument=True),
    "tool_call_parser": FlagKind(str, argument=True),
    "reasoning_parser": FlagKind(str, argument=True),
    "chat_template": FlagKind(str, argument=True),
    "trust_remote_code": FlagKind(bool, argument=True),
    "sleep": FlagKind(bool, argument=True),
    "shared_prefix": FlagKind(str, argument=True),
}
VLLM_ARGUMENTS = _SHARED_ARGUMENTS | {
    "kv_cache_gib": FlagKind(int, 1, argument=True),
    "threads": FlagKind(int, 1, argument=True),
    "eager": FlagKind(bool, argument=True),
}
"""``VLLM``'s; likewise."""
SGLANG_ARGUMENTS = _SHARED_ARGUMENTS | {"cuda_graphs": FlagKind(bool, argument=True)}
"""``SGLang``'s; likewise."""
ENGINES = ("llamacpp", "vllm", "sglang")
"""Engines whose flags are known."""
_TYPES_OF_FLAGS = {"switch": bool, "bool": bool, "int": int, "float": float}
"""By the type of an engine's command line flag; the others (lists, JSON) are text in a recipe."""


@cache
def known(engine: str) -> Mapping[str, FlagKind]:
    """The flags of one of :data:`ENGINES`; the words that vLLM and SGLang allow are checked by themselves."""
    if engine == "llamacpp":
        further = {name: FlagKind(kind if isinstance(kind, type) else str) for name, kind in EXTRA.items()}
        return LLAMACPP_ARGUMENTS | further
    cls, arguments = (VLLM, VLLM_ARGUMENTS) if engine == "vllm" else (SGLang, SGLANG_ARGUMENTS)
    return arguments | {
        name: FlagKind(_TYPES_OF_FLAGS.get(flag.type, str))
        for name, flag in flags(engine).by_name.items()
        if name not in cls.taken and name not in arguments
    }


def complaint(engine: str, name: str, value: object) -> tuple[str, str | None] | None:
    """Why a flag cannot have a value, with the nearest name where that is the trouble; None: it can."""
    kinds = known(engine)
    kind = kinds.get(name)
    if kind is None and (instead := _taken(engine).get(name)) is not None:
        return f"Outrider sets it. {instead}", None
    if kind is None:
        near = difflib.get_close_matches(name.replace("-", "_"), kinds, 1)
        return f"{engine} has no such flag; known: {', '.join(shown(engine))}", near[0] if near else None
    fitting = (int, float) if kind.type is float else (kind.type,)
    if not isinstance(value, fitting) or (isinstance(value, bool) and kind.type is not bool):
        return f"must be {_TYPES[kind.type]}", None
    if engine == "llamacpp" and isinstance(value, str) and (wrong := foreign(name, value)) is not None:
        words, near_word = wrong
        return f"allowed: {', '.join(words)}", near_word
    if isinstance(value, float) and not math.isfinite(value):
        return "must be finite", None
    if kind.least is not None and isinstance(value, int | float) and value < kind.least:
        return f"must be {kind.least:g} or more", None
    return None


def _taken(engine: str) -> Mapping[str, str]:
    """Flags that Outrider sets itself, with what to use instead."""
    return {} if engine == "llamacpp" else VLLM.taken if engine == "vllm" else SGLang.taken


def is_argument(engine: str, name: str) -> bool:
    """Whether a flag is an argument of the engine's class (else it goes into ``extra``)."""
    return known(engine)[name].argument


def shown(engine: str) -> list[str]:
    """The names worth listing: vLLM's and SGLang's own flags are hundreds, and would hide the few that matter."""
    return sorted(name for name, kind in known(engine).items() if kind.argument or engine == "llamacpp")


_TYPES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
