"""Which versions of which engine load which kind of drafter. The data is ``drafters.yaml`` beside this file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from outrider.engines.flags import ordered

_BESIDE_ADAPTERS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "sglang": {"0.5.15.post1": ("ngram",), "0.5.23": ("ngram", "mtp", "eagle3", "dflash")},
    "vllm": {"0.32.0": ("ngram", "mtp", "eagle3", "draft")},
}
"""Engine → version → methods that it runs beside LoRA adapters; an engine that is not here names no limit. Source:
``check_lora_speculative_compatibility`` of sglang 0.5.23, ``check_lora_server_args`` of 0.5.15.post1; vllm 0.32.0 on a
CPU died of its first request with a DFlash beside an adapter, with n-gram it answered, the others nobody tried."""
_GRAMMAR_BESIDE = {("sglang", "dflash"): "0.5.23"}
"""Engine, method → version from which on it takes requests with a grammar (JSON schema, a forced tool call) beside it.
Seen: 0.5.15.post1 answers them with 400. Read: ``validate_dflash_request`` of 0.5.23 lets them pass."""
_TITLES = {"sglang": "SGLang", "vllm": "vLLM", "llamacpp": "llama.cpp"}
_FILE = Path(__file__).with_name("drafters.yaml")


@dataclass(frozen=True, slots=True)
class Loader:
    """An engine that loads a kind of drafter: since which version, and where that was seen."""

    engine: str
    since: str
    source: str

    def __str__(self) -> str:
        """For people: ``vLLM 0.32.0``."""
        return f"{_TITLES[self.engine]} {self.since}"


def loaders(kind: str) -> tuple[Loader, ...]:
    """Every engine that loads a kind; none for a kind that is not known."""
    return _known().get(kind, ())


def complaint(kind: str, engine: str, version: str) -> str | None:
    """Why an engine of this version cannot be given such a drafter; None: it can.

    Args:
        version: ``any``: not looked at.
    """
    found = loaders(kind)
    others = ", ".join(f"{loader} and later" for loader in found) or "no engine here"
    mine = next((loader for loader in found if loader.engine == engine), None)
    if mine is None:
        return f"{_TITLES[engine]} was not seen to load {kind} drafters; they are loaded by {others}"
    if version != "any" and ordered(version) < ordered(mine.since):
        return f"{_TITLES[engine]} {version} was not seen to load {kind} drafters; they are loaded by {others}"
    return None


def beside_adapters(method: str, engine: str, version: str) -> str | None:
    """Why an engine does not run a method beside LoRA adapters; None: it does, or nobody says.

    Args:
        version: of those looked at, the newest that is not newer counts; ``any``: the newest.
    """
    known = _BESIDE_ADAPTERS.get(engine, {})
    older = [one for one in known if version == "any" or ordered(one) <= ordered(version)] or list(known)[:1]
    if not older or method == "off" or method in known[older[-1]]:
        return None
    return f"{_TITLES[engine]} {older[-1]} runs adapters beside {', '.join(known[older[-1]])} only, not {method}"


def refuses_grammar(method: str, engine: str, version: str) -> bool:
    """Whether an engine that speculates by this method answers requests with a grammar by an error.

    Args:
        version: ``any``: the newest.
    """
    since = _GRAMMAR_BESIDE.get((engine, method))
    return since is not None and version != "any" and ordered(version) < ordered(since)


def advice(engine: str, *, mixed_windows: bool) -> str | None:
    """What an engine needs for a drafter of this shape; None: nothing.

    Args:
        mixed_windows: some of its layers slide, others see everything.
    """
    if engine == "vllm" and mixed_windows:
        return "layers of both kinds need vLLM's second model runner: VLLM_USE_V2_MODEL_RUNNER=1 in its environment"
    return None


@cache
def _known() -> Mapping[str, tuple[Loader, ...]]:
    read = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return {
        kind: tuple(Loader(engine, str(said["since"]), said["source"]) for engine, said in engines.items())
        for kind, engines in read.items()
    }
