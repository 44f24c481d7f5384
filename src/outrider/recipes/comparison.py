"""A spec's own weights against the catalog model whose recipe is to serve them: what differs, what follows. Pure."""

from __future__ import annotations

from outrider.errors import WeightsUnfit
from outrider.models import comparison, tokenizer
from outrider.models.comparison import SIZES, differ
from outrider.recipes.reading import Files
from outrider.recipes.schema import Provenance, ReasonedFlag, Recipe, Speculation
from outrider.spec.facts import ModelFacts

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
    sizes = comparison.sizes(base, own)
    lines = [f"{text}: memory and speed are computed anew" for text in sizes]
    stored = comparison.precision(base.quantisation or recipe.precision, own)
    lines += [stored] if stored else []
    lines += comparison.vocabulary(base, own)
    lines += comparison.context(base, own)
    lines += _texts(base, own, files)
    slower = bool(sizes) or stored is not None
    updates: dict[str, object] = {"flags": _flags(recipe, own), "speculation": _speculation(recipe, own, lines)}
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
    text = comparison.architecture(base, own)
    if text is not None:
        raise WeightsUnfit(
            f"The recipes of {recipe.model.id} cannot serve these weights",
            why=f"{text}: flags and parsers of {recipe.id} are for that",
            details={"differences": [text]},
        )


def rested_on(recipe: Recipe) -> ModelFacts | None:
    """The catalog model's facts that own weights are held against where they are not here when it is planned.

    None: they are of another format than its engine reads, so that nothing of them can be compared.
    """
    if recipe.model.facts.format != _FORMATS[recipe.engine.name]:
        return None
    source = f"recipe {recipe.id} version {recipe.version}"
    return comparison.rested_on(recipe.model.facts, source=source, precision=recipe.precision)


def _flags(recipe: Recipe, own: ModelFacts) -> dict[str, ReasonedFlag]:
    """The recipe's flags, with a context that the weights were trained for."""
    flags, trained = dict(recipe.flags), own.context_length
    if trained is not None and "context" in flags and int(flags["context"].value) > trained:
        reason = (
            f"tokens a request may hold, all these weights were trained for; the recipe says {flags['context'].value:,}"
        )
        flags["context"] = ReasonedFlag(value=trained, reason=reason)
    return flags


def _texts(base: ModelFacts, own: ModelFacts, files: Files) -> list[str]:
    """How text is written: tokenizer and chat template."""
    if files.tokenizer is not None and files.catalog_tokenizer is not None:
        return tokenizer.differences(files.catalog_tokenizer, files.tokenizer)
    lines = comparison.chat_template(base, own)
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
    differs = [name for name in (*_DRAFTING, "vocab_size") if differ(getattr(base, name), getattr(own, name))]
    if differs and chosen.drafter is not None:
        what = " and ".join("vocabulary" if name == "vocab_size" else SIZES[name] for name in differs)
        lines.append(f"drafter: {chosen.drafter} is dropped, it was made for another {what}")
        return Speculation(method="off", reason=f"{chosen.method} of the recipe was made for another {what}")
    lines.append(
        f"drafter: the recipe's {chosen.method} was trained with the catalog model's own weights; on fine-tuned ones"
        " fewer drafts are accepted (https://github.com/sgl-project/SpecForge/issues/533)"
    )
    return chosen


def _stated(recipe: Recipe, own: ModelFacts) -> int:
    """What the recipe states, with the difference of the files; 0, nobody says, where their sizes are not known."""
    stated, was = recipe.hardware.min_memory_bytes, recipe.weights[0].bytes or recipe.model.facts.file_bytes
    if not stated or was is None or own.file_bytes is None:
        return 0
    return max(own.file_bytes, stated + (own.file_bytes - was) // recipe.hardware.count)
