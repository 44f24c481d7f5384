"""Own weights against the facts that a plan rests upon: where they differ, in words. Pure.

The planner compares where the files are here; else the replica does, before its engine starts.
"""

from __future__ import annotations

import re

from outrider.models.precision import bits
from outrider.spec.facts import ModelFacts

SIZES = {
    "layers": "layers",
    "hidden_size": "hidden size",
    "ffn_size": "feed-forward size",
    "heads": "heads",
    "kv_heads": "KV heads",
    "head_dim": "head dimension",
    "experts": "experts",
    "experts_per_token": "experts a token uses",
    "expert_ffn_size": "size of an expert",
    "kv_lora_rank": "KV LoRA rank",
    "window": "sliding window",
    "linear_layers": "linear layers",
}
"""Facts that memory and speed follow from, and how they are called."""
_RESTED_ON = (*SIZES, "vocab_size", "context_length", "quantisation", "has_chat_template")


def rested_on(facts: ModelFacts, *, source: str, precision: str) -> ModelFacts:
    """Only those facts of a catalog model that own weights are compared with.

    Args:
        source: who states them.
        precision: of the catalog model's weights, where their own facts name none.
    """
    known = {name: getattr(facts, name) for name in _RESTED_ON if getattr(facts, name) is not None}
    known = {"quantisation": precision, **known}
    return ModelFacts(format=facts.format, architecture=facts.architecture, source=source, **known)


def differ(was: object, now: object) -> bool:
    """Whether both are known and are not the same."""
    return was is not None and now is not None and was != now


def architecture(base: ModelFacts, own: ModelFacts) -> str | None:
    """How the families differ; None: they do not, or nobody can tell.

    GGUF names families otherwise than config.json does, so only like is compared with like.
    """
    if own.format != base.format or _family(own.architecture) == _family(base.architecture):
        return None
    return f"architecture: {own.architecture}, the catalog model's is {base.architecture}"


def sizes(base: ModelFacts, own: ModelFacts) -> list[str]:
    """Differences that memory and speed follow from, a line each."""
    lines = []
    for name, title in SIZES.items():
        was, now = getattr(base, name), getattr(own, name)
        if differ(was, now):
            lines.append(f"{title}: {now:,}, the catalog model has {was:,}")
    return lines


def precision(made: str | None, own: ModelFacts) -> str | None:
    """How weights are stored otherwise than those that the recipe was made with; None: as these, or not known."""
    has = own.quantisation
    if made is None or has is None or has.lower() == made.lower():
        return None
    if bits(has) is not None and bits(has) == bits(made):
        return None
    return f"precision: {has}, the recipe's is {made}: its figures do not hold for them"


def takes_more(made: str | None, own: ModelFacts) -> bool:
    """Whether each of its weights is known to take more memory than those that the recipe was made with."""
    was, now = bits(made or ""), bits(own.quantisation or "")
    return was is not None and now is not None and now > was


def vocabulary(base: ModelFacts, own: ModelFacts) -> list[str]:
    """Tables of another height."""
    was, now = base.vocab_size, own.vocab_size
    if was is None or now is None or was == now:
        return []
    return [f"vocabulary: {now:,} rows, the catalog model has {was:,}"]


def context(base: ModelFacts, own: ModelFacts) -> list[str]:
    """Another length that was trained for."""
    was, now = base.context_length, own.context_length
    if was is None or now is None or was == now:
        return []
    return [f"context: trained for {now:,} tokens, the catalog model for {was:,}"]


def chat_template(base: ModelFacts, own: ModelFacts) -> list[str]:
    """A chat template that is missing."""
    if not base.has_chat_template or own.has_chat_template is not False:
        return []
    return ["chat template: none, the catalog model has one; chat is refused or guessed by the engine"]


def _family(name: str) -> str:
    """``Qwen3_5ForConditionalGeneration``, ``qwen3_5`` and ``qwen3_5_text`` are one."""
    name = re.sub(r"(ForCausalLM|ForConditionalGeneration|Model)$", "", name)
    return re.sub(r"text$", "", re.sub(r"[^a-z0-9]", "", name.lower()))
