"""What is known of a drafter's files, what is wrong with them for a target, and which engines load them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.drafting.card import Card, read_card
from outrider.drafting.config import DraftConfig
from outrider.engines.drafters import Loader, loaders
from outrider.errors import InvalidDrafter, UnknownModel
from outrider.models.drafter import DrafterFacts, read_drafter
from outrider.models.drafter_check import Finding, Target, check
from outrider.models.facts import read_facts
from outrider.models.safetensors import read_object
from outrider.models.sources import parse
from outrider.models.tokenizer import read_tokenizer
from outrider.models.weights import Weights
from outrider.recipes.library import Catalog
from outrider.recipes.weights import weights_of

_SCHEMES = ("hf:", "path:", "package:", "outrider:")


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was found.

    Attributes:
        findings: refusals first; empty without a target, but for what its config says of itself.
        loaders: engines that load its kind in its format; which of them here, its findings say.
        target: where the target's facts were read; None: none was named.
    """

    facts: DrafterFacts
    card: Card
    findings: Sequence[Finding]
    loaders: Sequence[Loader]
    target: str | None


def inspect(path: Path, target: Target | None) -> Inspection:
    """Look at a drafter's directory or GGUF file. Raises WeightsUnreadable: it is none, or damaged."""
    facts = read_drafter(path)
    directory = path if path.is_dir() else path.parent
    findings = [*_own(facts, directory), *(check(facts, target) if target else ())]
    findings.sort(key=lambda finding: finding.severity != "refuse")
    return Inspection(
        facts, read_card(directory), findings, served_by(facts), target.facts.source if target is not None else None
    )


def served_by(facts: DrafterFacts) -> tuple[Loader, ...]:
    """Engines that load such files, each since which version; llama.cpp also what was exported to GGUF from them."""
    reads = {"gguf": ("llamacpp",), "speculators": ("vllm",)}.get(facts.format, ("vllm", "sglang", "llamacpp"))
    return tuple(loader for loader in loaders(facts.kind) if loader.engine in reads)


def target_named(name: str, catalog: Catalog) -> Target:
    """What is known of a target: by path, by reference, or by the id of a model or recipe.

    A model whose files are not here is known by its recipe's facts, without a tokenizer.

    Raises:
        InvalidReference, WeightsUnreadable. UnknownModel: nothing of that name.
    """
    place = Path(name).expanduser()
    if place.exists():
        return _read(place)
    if name.startswith(_SCHEMES):
        parse(name)
        here = Weights(name).cached(lambda _: None)
        if here is None:
            raise UnknownModel(f"{name} is not on this machine", remedy=f"Fetch it first: outrider model pull {name}")
        return _read(here)
    recipes = [recipe for recipe in catalog.all() if recipe.id == name] or catalog.for_model(name)
    for recipe in recipes:
        planned = weights_of(recipe)
        here = Weights(*planned.sources, sha256=planned.sha256).cached(lambda _: None)
        if here is not None:
            return _read(here)
    if not recipes:
        near = catalog.nearest_models(name)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Give a path, or a model of: outrider recipe list"
        raise UnknownModel(f"Nothing is known of the target {name!r}", remedy=hint)
    return Target(recipes[0].model.facts, None, recipes[0].model.facts.context_length)


def _read(path: Path) -> Target:
    facts = read_facts(path)
    return Target(facts, read_tokenizer(path))


def _own(facts: DrafterFacts, directory: Path) -> list[Finding]:
    """What a DFlash's config says that no drafter of the kind can be."""
    if facts.format != "z-lab" or facts.kind not in ("dflash", "dflash2"):
        return []
    try:
        DraftConfig.parse(read_object(directory / "config.json"))
    except InvalidDrafter as error:
        source = "https://github.com/z-lab/dflash/blob/main/dflash/model.py"
        return [Finding("config", "warn", f"{error.what}: {error.why}", error.remedy, source)]
    return []
