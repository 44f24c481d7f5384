"""llama.cpp's further parameters: which of them ``LlamaCpp(extra=…)`` takes, and what each may be.

Names are those of ``llama.cpp``'s own ``common_params``; what Outrider sets itself is not among them.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from outrider.errors import InvalidInput

Choice = tuple[str, str, tuple[str, ...]]
"""Enum, prefix of its members, and the members that make sense, in lower case."""

_CACHE: Choice = ("ggml_type", "GGML_TYPE_", ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"))
_SPECULATION = ("none", "ngram_simple", "ngram_map_k", "ngram_map_k4v", "ngram_mod", "ngram_cache")

FLASH_ATTENTION: Choice = ("llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_", ("auto", "disabled", "enabled"))
POOLING: Choice = ("llama_pooling_type", "LLAMA_POOLING_TYPE_", ("none", "mean", "cls", "last"))

EXTRA: Mapping[str, type | Choice] = {
    "cache_idle_slots": bool,
    "cache_type_k": _CACHE,
    "cache_type_v": _CACHE,
    "chat_template": str,
    "cont_batching": bool,
    "ctx_shift": bool,
    "embd_normalize": int,
    "endpoint_slots": bool,
    "kv_unified": bool,
    "load_mode": ("llama_load_mode", "LLAMA_LOAD_MODE_", ("auto", "none", "mmap", "mlock", "mmap_mlock", "direct_io")),
    "main_gpu": int,
    "n_cache_reuse": int,
    "n_ctx_checkpoints": int,
    "n_gpu_layers": int,
    "n_keep": int,
    "n_predict": int,
    "n_threads_http": int,
    "no_kv_offload": bool,
    "no_op_offload": bool,
    "numa": ("ggml_numa_strategy", "GGML_NUMA_STRATEGY_", ("disabled", "distribute", "isolate", "numactl")),
    "pooling_type": POOLING,
    "prefill_assistant": bool,
    "reasoning_format": (
        "common_reasoning_format",
        "COMMON_REASONING_FORMAT_",
        ("none", "auto", "deepseek", "deepseek_legacy"),
    ),
    "rope_freq_base": float,
    "rope_freq_scale": float,
    "slot_prompt_similarity": float,
    "speculative.ngram_simple.min_hits": int,
    "speculative.ngram_simple.size_m": int,
    "speculative.ngram_simple.size_n": int,
    "speculative.types": ("common_speculative_type", "COMMON_SPECULATIVE_TYPE_", _SPECULATION),
    "sse_ping_interval": int,
    "swa_full": bool,
    "timeout_read": int,
    "timeout_write": int,
    "use_jinja": bool,
    "verbosity": int,
    "yarn_attn_factor": float,
    "yarn_ext_factor": float,
    "yarn_orig_ctx": int,
}
"""By name: a plain type, or a choice in lower case (``"q8_0"``; ``speculative.types`` takes several, by comma)."""

_LISTS = ("speculative.types",)


def encoded(extra: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters as the child reads them.

    Raises:
        InvalidInput: an unknown name (the nearest is named), a wrong type, or an unknown choice.
    """
    return {name: _encode(name, value) for name, value in extra.items()}


def foreign(name: str, text: str) -> tuple[tuple[str, ...], str | None] | None:
    """The words that a flag may be, with the nearest, where ``text`` has another; None: the flag may be that."""
    choice = FLASH_ATTENTION if name == "flash_attention" else EXTRA.get(name)
    if not isinstance(choice, tuple):
        return None
    spelt = [_spelt(part) for part in (text.split(",") if name in _LISTS else [text])]
    other = next((word for word in spelt if word not in choice[2]), None)
    return None if other is None else (choice[2], next(iter(difflib.get_close_matches(other, choice[2], 1)), None))


def member(choice: Choice, word: str, *, name: str) -> dict[str, Any]:
    """One member of an enum, as the child reads it. Raises InvalidInput for a word that is none."""
    return {"enum": choice[0], "members": [_checked(choice, word, name)]}


def _encode(name: str, value: Any) -> Any:
    kind = EXTRA.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, EXTRA, 1)
        raise InvalidInput(
            f"LlamaCpp has no parameter {name!r}",
            remedy=f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(EXTRA)}.",
            details={"nearest": near[0] if near else None, "allowed": list(EXTRA)},
        )
    if isinstance(kind, tuple):
        if name not in _LISTS:
            return member(kind, value, name=name)
        words = [part.strip() for part in str(value).split(",")]
        return {"enum": kind[0], "members": [_checked(kind, word, name) for word in words], "list": True}
    whole = kind is float and type(value) is int
    if type(value) is not kind and not whole:
        raise InvalidInput(f"LlamaCpp({name}={value!r})", why=f"{name} is {_ARTICLES[kind]}", remedy="Correct it.")
    return float(value) if whole else value


def _checked(choice: Choice, word: object, name: str) -> str:
    _, prefix, words = choice
    spelt = _spelt(word)
    if spelt not in words:
        near = difflib.get_close_matches(spelt, words, 1)
        raise InvalidInput(
            f"LlamaCpp({name}={word!r})",
            why=f"allowed: {', '.join(words)}",
            remedy=f"Did you mean {near[0]!r}?" if near else "Take one of these.",
        )
    return prefix + spelt.upper()


def _spelt(word: object) -> str:
    return str(word).strip().lower().replace("-", "_")


_ARTICLES: Mapping[type, str] = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
