"""Which drafter an endpoint gets with a recipe, when its spec names one: looked up, read, and checked. Pure."""

from __future__ import annotations

from dataclasses import replace

from outrider.engines import drafters
from outrider.errors import DrafterUnfit
from outrider.models.checked import refuse
from outrider.models.drafter import DrafterFacts
from outrider.models.drafter_check import Target
from outrider.models.sources import parse
from outrider.recipes.reading import Files
from outrider.recipes.schema import DrafterOption, Recipe, Speculation
from outrider.spec.drafter import WORDS
from outrider.spec.facts import ModelFacts

_MOST_TOKENS = 7
"""Tokens drafted of a longer block where nobody says how many: blocks of 16 verify well at 8, and pay at more loads."""
_BY_NAME = (("eagle3", "eagle3"), ("eagle-3", "eagle3"), ("dflash", "dflash"))
"""Parts of a repository's name that say its method; DFlash 2, LiLiCorr and the like are loaded as DFlash."""


def chosen(
    wanted: str, recipe: Recipe, facts: ModelFacts, files: Files, context: int | None
) -> tuple[Speculation, tuple[str, ...]]:
    """What speculates, and the warnings.

    Args:
        wanted: the spec's word or reference.
        facts: of the weights that would run.
        context: tokens that a request may hold.

    Raises:
        DrafterUnfit: engine, model or drafter do not allow it; says why and what would.
    """
    if wanted in ("auto", "off"):
        return recipe.speculation, ()
    if wanted in WORDS:
        return _word(wanted, recipe, facts), ()
    option = _option(wanted, recipe)
    own = files.drafter
    if own is not None:
        own = replace(own, modes=option.trained_on.modes, languages=option.trained_on.languages) if option else own
        return _read(wanted, own, option, recipe, Target(facts, files.tokenizer or files.catalog_tokenizer, context))
    method, whose = _unread(wanted, option)
    _loadable(wanted, method if method != "draft" else "model", recipe)
    tokens = option.tokens if option else None
    reason = f"set by you; {whose}; its files are checked before the engine starts"
    quantization = (option.quantization if option else None) or "none"
    made = Speculation.model_validate(
        {"method": method, "drafter": wanted, "quantization": quantization, "tokens": tokens, "reason": reason}
    )
    notes = ["its files are not on this machine yet: outrider model pull fetches them, to be checked in the plan"]
    if option is not None and option.trained_on.modes:
        notes.append(f"the recipe says: trained on {' and '.join(option.trained_on.modes)} answers")
    if option is not None and option.trained_on.languages:
        notes.append(f"the recipe says: trained on {', '.join(option.trained_on.languages)}")
    return made, tuple(notes)


def _word(wanted: str, recipe: Recipe, facts: ModelFacts) -> Speculation:
    if recipe.speculation.method == wanted:
        return recipe.speculation.model_copy(update={"reason": f"set by you; {recipe.speculation.reason}"})
    option = next((one for one in recipe.drafters if one.method == wanted), None)
    if wanted == "mtp" and option is None and not facts.mtp_layers:
        raise DrafterUnfit(
            f"{recipe.id} cannot use the drafter 'mtp'",
            why=f"no prediction heads of {facts.source} are known",
            remedy="Say ngram or off, or name a drafter: hf:org/name",
        )
    note = f"; {option.note}" if option and option.note else ""
    return Speculation.model_validate(
        {"method": wanted, "tokens": option.tokens if option else None, "reason": f"set by you{note}"}
    )


def _read(
    wanted: str, own: DrafterFacts, option: DrafterOption | None, recipe: Recipe, target: Target
) -> tuple[Speculation, tuple[str, ...]]:
    """From the drafter's own files, held against the target."""
    _loadable(wanted, own.kind, recipe)
    _readable(wanted, own, recipe)
    tokens = option.tokens if option else None
    if tokens is None and own.block_size is not None:
        tokens = max(1, min(own.block_size - 1, _MOST_TOKENS))
    warnings = [finding.what for finding in refuse(own, wanted, target, None, tokens)]
    mixed = own.window_layers is not None and 0 < own.window_layers < (own.layers or 0)
    if (more := drafters.advice(recipe.engine.name, mixed_windows=mixed)) is not None:
        warnings.append(more)
    reason = f"set by you; a {own.kind} drafter, by {own.source}; it was checked against {target.facts.source}"
    made = Speculation.model_validate(
        {
            "method": own.method,
            "drafter": wanted,
            "quantization": own.quantisation or "none",
            "tokens": tokens,
            "reason": reason,
        }
    )
    return made, tuple(warnings)


def _loadable(wanted: str, kind: str, recipe: Recipe) -> None:
    found = drafters.complaint(kind, recipe.engine.name, recipe.engine.version)
    if found is not None:
        raise DrafterUnfit(
            f"{recipe.id} cannot use the drafter {wanted}",
            why=found,
            remedy="Name an engine that does with --engine, or say: off",
            details={"kind": kind, "loaders": [str(loader) for loader in drafters.loaders(kind)]},
        )


def _readable(wanted: str, own: DrafterFacts, recipe: Recipe) -> None:
    """llama.cpp reads a drafter from a GGUF file, and nobody else does."""
    llamacpp = recipe.engine.name == "llamacpp"
    if llamacpp == (own.format == "gguf"):
        return
    what = "it is a directory, and llama.cpp reads a GGUF file" if llamacpp else "only llama.cpp reads a GGUF file"
    convert = f"Convert it: outrider drafter export {wanted.partition(':')[2]} --format gguf --target MODEL"
    raise DrafterUnfit(
        f"{recipe.id} cannot use the drafter {wanted}",
        why=what,
        remedy=convert if llamacpp else "Give the directory that it was converted from.",
    )


def _option(wanted: str, recipe: Recipe) -> DrafterOption | None:
    """The recipe's entry for a repository, whatever the revision."""
    repo = wanted.partition("@")[0]
    options = [one for one in recipe.drafters if one.drafter and one.drafter.partition("@")[0] == repo]
    return options[0] if options else None


def _unread(wanted: str, option: DrafterOption | None) -> tuple[str, str]:
    """Method of a drafter whose files are not here, and who says so."""
    parse(wanted)
    if option is not None:
        return option.method, f"the recipe lists it as {option.method}"
    for part, method in _BY_NAME:
        if part in wanted.lower():
            return method, f"taken for {method} by its name"
    raise DrafterUnfit(
        f"Nobody knows what kind of drafter {wanted} is",
        why="its files are not on this machine, and neither the recipe nor its name says",
        remedy=f"Fetch it first: outrider model pull {wanted}",
    )
