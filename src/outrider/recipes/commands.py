"""A command line of vLLM or SGLang read as a recipe's parts: flags by Outrider's names, and the drafter. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from outrider.engines.flags import Flag, flags
from outrider.engines.sglang import SGLang
from outrider.engines.vllm import VLLM
from outrider.recipes.flags import FlagValue

OPTIONS: Mapping[str, Mapping[str, str]] = {
    "vllm": {
        "quantization": "quantization",
        "dtype": "dtype",
        "max_model_len": "context",
        "max_num_seqs": "slots",
        "max_num_batched_tokens": "batch_size",
        "tensor_parallel_size": "gpus",
        "gpu_memory_utilization": "memory_share",
        "kv_cache_dtype": "kv_cache_type",
        "enable_prefix_caching": "cache_prompt",
        "tool_call_parser": "tool_call_parser",
        "reasoning_parser": "reasoning_parser",
        "chat_template": "chat_template",
        "trust_remote_code": "trust_remote_code",
        "enforce_eager": "eager",
        "enable_sleep_mode": "sleep",
    },
    "sglang": {
        "quantization": "quantization",
        "dtype": "dtype",
        "context_length": "context",
        "max_running_requests": "slots",
        "chunked_prefill_size": "batch_size",
        "tensor_parallel_size": "gpus",
        "mem_fraction_static": "memory_share",
        "kv_cache_dtype": "kv_cache_type",
        "tool_call_parser": "tool_call_parser",
        "reasoning_parser": "reasoning_parser",
        "chat_template": "chat_template",
        "trust_remote_code": "trust_remote_code",
        "enable_memory_saver": "sleep",
    },
}
"""Engine → its flag → the argument of Outrider's class for the engine that sets it; a test compares them."""
_SHORT = {
    "vllm": {"-tp": "--tensor-parallel-size", "-dp": "--data-parallel-size", "-pp": "--pipeline-parallel-size"},
    "sglang": {
        "--tp": "--tensor-parallel-size",
        "--tp-size": "--tensor-parallel-size",
        "--dp": "--dp-size",
        "--ep": "--ep-size",
        "--pp": "--pp-size",
    },
}
_OWN = {
    "vllm": ("host", "port", "served_model_name", "api_key", "enable_auto_tool_choice", "model"),
    "sglang": ("host", "port", "served_model_name", "api_key", "enable_metrics", "model_path", "model"),
}
"""What Outrider sets itself, so that a recipe has no place for it."""
_VLLM_METHODS = {
    "mtp": "mtp",
    "eagle3": "eagle3",
    "dflash": "dflash",
    "dspark": "dspark",
    "ngram": "ngram",
    "draft_model": "draft",
}
_SGLANG_METHODS = {
    "NEXTN": "mtp",
    "EAGLE3": "eagle3",
    "DFLASH": "dflash",
    "NGRAM": "ngram",
    "STANDALONE": "draft",
}
_SGLANG_DRAFTING = (
    "speculative_algorithm",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
    "speculative_draft_model_path",
    "speculative_dflash_block_size",
)


@dataclass(frozen=True, slots=True)
class Drafting:
    """How a command line speculates.

    Attributes:
        method: as :class:`~outrider.recipes.schema.DrafterOption` names it.
        model: the drafter's repository, or None.
        tokens: drafted a step, without the bonus token; None: the command does not say.
    """

    method: str
    model: str | None
    tokens: int | None


@dataclass(slots=True)
class Command:
    """What a command line says.

    Attributes:
        model: the weights that it serves.
        flags: by Outrider's names, as a recipe holds them.
        drafting: None: it does not speculate, or in a way that ``unknown`` names.
        unknown: words that no flag of the engine is, or whose value does not fit.
    """

    model: str | None = None
    flags: dict[str, FlagValue] = field(default_factory=dict)
    drafting: Drafting | None = None
    unknown: list[str] = field(default_factory=list)


def read_command(engine: str, words: Sequence[str]) -> Command:
    """Read the words after ``vllm serve`` or ``sglang.launch_server``; of a flag given twice the last counts.

    Args:
        engine: ``vllm`` or ``sglang``.
    """
    found = Command()
    drafting: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for word, values in _groups(engine, words):
        if not word:
            found.model = values[0]
            continue
        name = word.removeprefix("--").replace("-", "_")
        base, dot, key = name.partition(".")
        if dot and engine == "vllm":  # --kernel-config.autotune=False is one key of a JSON flag
            nested.setdefault(base, {})[key] = _scalar(values)
        elif name in ("model", "model_path"):
            found.model = values[0] if values else None
        elif name == "speculative_config" or name in _SGLANG_DRAFTING:
            drafting[name] = values[0] if values else None
        elif name not in _OWN[engine]:
            _set(found, engine, word, values)
    for name, keys in nested.items():
        _set(found, engine, f"--{name.replace('_', '-')}", [json.dumps(keys)])
    found.drafting = _drafting(engine, drafting, found.unknown)
    return found


def _groups(engine: str, words: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each flag with its values; a leading value without a flag has the flag ``""``."""
    current: str | None = None
    values: list[str] = []
    for word in [part for line in words for part in _split(line)]:
        if word.startswith("--") or word in _SHORT[engine]:
            if current is not None:
                yield current, values
            head, equals, tail = word.partition("=")
            current, values = _SHORT[engine].get(head, head), [tail] if equals else []
        elif current is None:
            yield "", [word]
        else:
            values.append(word)
    if current is not None:
        yield current, values


def _split(line: str) -> list[str]:
    """``--flag value`` written as one word, as SGLang's cookbook does; a value with blanks in it stays whole."""
    return line.split(None, 1) if line.startswith("--") and "=" not in line.split(None, 1)[0] else [line]


def _set(found: Command, engine: str, word: str, values: list[str]) -> None:
    table = flags(engine).by_name
    name = word.removeprefix("--").replace("-", "_")
    on = True
    if name not in table and name.startswith("no_"):
        name, on = name.removeprefix("no_"), False
    if name == "disable_radix_cache":
        found.flags["cache_prompt"] = False
    elif name == "disable_cuda_graph":
        found.flags["cuda_graphs"] = False
    elif name in _taken(engine) or (flag := table.get(name)) is None or (value := _value(flag, values, on)) is None:
        found.unknown.append(" ".join([word, *values]))
    else:
        found.flags[OPTIONS[engine].get(name, name)] = value


def _taken(engine: str) -> frozenset[str]:
    """Flags that Outrider sets itself, and that no argument of its class stands for alone."""
    cls = VLLM if engine == "vllm" else SGLang
    return frozenset(cls.taken) - OPTIONS[engine].keys()


def _value(flag: Flag, values: list[str], on: bool) -> FlagValue | None:
    """A flag's value by its type; None where the words do not fit it."""
    if flag.type in ("switch", "bool"):
        return on if not values else None
    if len(values) != 1:
        return None
    text = values[0].strip("'") if flag.type == "json" else values[0]
    try:
        if flag.type == "int":
            return int(text)
        if flag.type == "float":
            return float(text)
        if flag.type == "json":
            json.loads(text)
    except ValueError:
        return None
    return text


def _scalar(values: list[str]) -> Any:
    text = values[0] if values else "true"
    try:
        return json.loads(text.lower() if text in ("True", "False") else text)
    except ValueError:
        return text


def _drafting(engine: str, said: dict[str, Any], unknown: list[str]) -> Drafting | None:
    if not said:
        return None
    found = _vllm_drafting(said["speculative_config"]) if engine == "vllm" else _sglang_drafting(said)
    if found is None:
        unknown.append(" ".join(f"--{name.replace('_', '-')} {value}" for name, value in said.items()))
    return found


def _vllm_drafting(text: str | None) -> Drafting | None:
    try:
        said = json.loads((text or "").strip("'"))
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    method = _VLLM_METHODS.get(str(said.pop("method", None)))
    model, tokens = said.pop("model", None), said.pop("num_speculative_tokens", None)
    if not isinstance(model, str | None) or not isinstance(tokens, int | None):
        return None
    if method is None and model is not None and not said:
        method = "draft"  # vLLM finds out from the weights what kind they are
    return None if method is None or said.keys() - _DETAILS else Drafting(method, model, tokens)


_DETAILS = {"moe_backend", "draft_tensor_parallel_size", "draft_sample_method"}
"""Of vLLM's speculative configuration: how the drafter runs, not which it is."""


def _sglang_drafting(said: dict[str, Any]) -> Drafting | None:
    algorithm, model = said.get("speculative_algorithm"), said.get("speculative_draft_model_path")
    if algorithm == "EAGLE" and model is None:
        algorithm = "NEXTN"  # without a draft model SGLang takes the target's own prediction heads
    method = _SGLANG_METHODS.get(algorithm or "")
    counted = said.get("speculative_dflash_block_size") or said.get("speculative_num_draft_tokens")
    if method is None or said.get("speculative_eagle_topk", "1") != "1" or not str(counted or 1).isdecimal():
        return None
    return Drafting(method, model, int(counted) - 1 if counted else None)  # SGLang counts the bonus token
