"""A spec's own weights against the catalog model whose recipe is to serve them: what differs, what follows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from outrider.errors import WeightsUnfit
from outrider.models import tokenizer
from outrider.recipes.precision import bits
from outrider.recipes.reading import Files
from outrider.recipes.schema import Provenance, ReasonedFlag, Recipe, Speculation
from outrider.spec.facts import ModelFacts

_SIZES = {
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
_DRAFTING = ("layers", "hidden_size")
"""Facts that a drafter was made for, beside the vocabulary."""
_FORMATS = {"llamacpp": "gguf", "vllm": "safetensors", "sglang": "safetensors"}


def rebased(recipe: Recipe, own: ModelFacts, files: Files) -> tuple[Recipe, tuple[str, ...]]:
    """The recipe as it holds for own weights, and every difference in words.

    Figures that were measured with other weights are left out of it, and a drafter that cannot fit is dropped.

    Raises:
        WeightsUnfit: the engine does not read them, or they are of another architecture.
    """
    base = recipe.model.facts
    _readable(recipe, own)
    sizes = list(_sizes(base, own))
    lines = [f"{text}: memory and speed are computed anew" for _, text in sizes]
    lines += _precision(recipe, own)
    lines += _vocabulary(base, own)
    context, changed = _context(recipe, own)
    lines += context
    lines += _texts(base, own, files)
    slower = bool(sizes) or bool(_precision(recipe, own))
    updates: dict[str, object] = {"flags": changed, "speculation": _speculation(recipe, own, lines)}
    if slower:
        note = f"{recipe.provenance.status} with other weights: {lines[0]}"
        # Its validator wants a curve of what was measured; nothing here was.
        updates |= {
            "capacity_curve": (),
            "provenance": Provenance(status="untested", when=recipe.provenance.when, note=note),
            "precision": own.quantisation or recipe.precision,
            "hardware": recipe.hardware.model_copy(update={"min_memory_bytes": _stated(recipe, own)}),
        }
    return recipe.model_copy(update=updates), tuple(lines)


def _readable(recipe: Recipe, own: ModelFacts) -> None:
    base, engine = recipe.model.facts, recipe.engine.name
    if own.format != _FORMATS[engine]:
        raise WeightsUnfit(
            f"{engine} does not read these weights",
            why=f"it reads {_FORMATS[engine]}, {own.source} is of {own.format}",
            remedy=f"Give weights as {_FORMATS[engine]}, or name another engine.",
            details={"differences": [f"format: {own.format}"]},
        )
    # GGUF names families otherwise than config.json does, so only like is compared with like.
    if own.format == base.format and _family(own.architecture) != _family(base.architecture):
        text = f"architecture: {own.architecture}, the catalog model's is {base.architecture}"
        raise WeightsUnfit(
            f"The recipes of {recipe.model.id} cannot serve these weights",
            why=f"{text}: flags and parsers of {recipe.id} are for that",
            details={"differences": [text]},
        )


def _family(architecture: str) -> str:
    """``Qwen3_5ForConditionalGeneration``, ``qwen3_5`` and ``qwen3_5_text`` are one."""
    name = re.sub(r"(ForCausalLM|ForConditionalGeneration|Model)$", "", architecture)
    return re.sub(r"text$", "", re.sub(r"[^a-z0-9]", "", name.lower()))


def _sizes(base: ModelFacts, own: ModelFacts) -> Iterator[tuple[str, str]]:
    for name, title in _SIZES.items():
        was, now = getattr(base, name), getattr(own, name)
        if was is not None and now is not None and was != now:
            yield name, f"{title}: {now:,}, the catalog model has {was:,}"


def _precision(recipe: Recipe, own: ModelFacts) -> list[str]:
    made, has = recipe.model.facts.quantisation or recipe.precision, own.quantisation
    if has is None or has.lower() == made.lower():
        return []
    if bits(has) is not None and bits(has) == bits(made):
        return []
    return [f"precision: {has}, the recipe's is {made}: its figures do not hold for them"]


def _vocabulary(base: ModelFacts, own: ModelFacts) -> list[str]:
    was, now = base.vocab_size, own.vocab_size
    if was is None or now is None or was == now:
        return []
    return [f"vocabulary: {now:,} rows, the catalog model has {was:,}"]


def _context(recipe: Recipe, own: ModelFacts) -> tuple[list[str], dict[str, ReasonedFlag]]:
    """The recipe's flags, with a context that the weights were trained for."""
    flags, trained, base = dict(recipe.flags), own.context_length, recipe.model.facts.context_length
    lines = []
    if trained is not None and base is not None and trained != base:
        lines.append(f"context: trained for {trained:,} tokens, the catalog model for {base:,}")
    if trained is not None and "context" in flags and int(flags["context"].value) > trained:
        reason = (
            f"tokens a request may hold, all these weights were trained for; the recipe says {flags['context'].value:,}"
        )
        flags["context"] = ReasonedFlag(value=trained, reason=reason)
    return lines, flags


def _texts(base: ModelFacts, own: ModelFacts, files: Files) -> list[str]:
    """How text is written: tokenizer and chat template."""
    if files.tokenizer is not None and files.catalog_tokenizer is not None:
        return tokenizer.differences(files.catalog_tokenizer, files.tokenizer)
    lines = []
    if base.has_chat_template and own.has_chat_template is False:
        lines.append("chat template: none, the catalog model has one; chat is refused or guessed by the engine")
    whose = (
        "your weights bring none"
        if files.tokenizer is None
        else "the catalog model's files are not on this machine (outrider model pull)"
    )
    return [*lines, f"tokenizer: not compared, {whose}"]


def _speculation(recipe: Recipe, own: ModelFacts, lines: list[str]) -> Speculation:
    """The recipe's, unless its drafter was made for another model; says so, and what fine-tuning does to it."""
    chosen, base = recipe.speculation, recipe.model.facts
    if chosen.drafter is None and chosen.method != "mtp":
        return chosen
    differs = [name for name in (*_DRAFTING, "vocab_size") if _differ(getattr(base, name), getattr(own, name))]
    if differs and chosen.drafter is not None:
        what = " and ".join("vocabulary" if name == "vocab_size" else _SIZES[name] for name in differs)
        lines.append(f"drafter: {chosen.drafter} is dropped, it was made for another {what}")
        return Speculation(method="off", reason=f"{chosen.method} of the recipe was made for another {what}")
    lines.append(
        f"drafter: the recipe's {chosen.method} was trained with the catalog model's own weights; on fine-tuned ones"
        " fewer drafts are accepted (https://github.com/sgl-project/SpecForge/issues/533)"
    )
    return chosen


def _differ(was: int | None, now: int | None) -> bool:
    return was is not None and now is not None and was != now


def _stated(recipe: Recipe, own: ModelFacts) -> int:
    """What the recipe states, with the difference of the files; 0, nobody says, where their sizes are not known."""
    stated, was = recipe.hardware.min_memory_bytes, recipe.weights[0].bytes or recipe.model.facts.file_bytes
    if not stated or was is None or own.file_bytes is None:
        return 0
    return max(own.file_bytes, stated + (own.file_bytes - was) // recipe.hardware.count)
