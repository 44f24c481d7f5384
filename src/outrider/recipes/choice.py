"""Which recipe: candidates by model, then what each lacks for this endpoint on this machine; or one made from facts."""

from __future__ import annotations

from outrider.errors import InvalidInput, UnknownModel
from outrider.recipes.library import Catalog
from outrider.recipes.memory import kv_bytes
from outrider.recipes.plan import Decision
from outrider.recipes.schema import (
    Hardware,
    Limits,
    Provenance,
    ReasonedFlag,
    Recipe,
    RecipeEngine,
    RecipeModel,
    Speculation,
    WeightsSource,
)
from outrider.spec.endpoint import Endpoint
from outrider.spec.facts import ModelFacts
from outrider.spec.inventory import Inventory

_STANDING = ("measured", "published", "estimated", "untested")
"""From the best provenance to the worst: what was measured is preferred to what was not."""
_UNKNOWN_CONTEXT = 4096
"""Tokens a request may hold where nothing is known: a chat with its history."""


def choose(
    endpoint: Endpoint, inventory: Inventory, catalog: Catalog, facts: ModelFacts | None
) -> tuple[Recipe, Decision]:
    """The recipe for an endpoint, and why that one.

    Raises:
        RecipeNotFound: the endpoint names one that there is not. UnknownModel: no recipe and no facts.
        InvalidInput: recipes, but none that this machine and this endpoint allow.
    """
    candidates = [catalog.get(endpoint.recipe)] if endpoint.recipe else catalog.for_model(endpoint.model)
    rejected = {r.id: reason for r in candidates if (reason := _unfit(r, endpoint, inventory)) is not None}
    fitting = sorted(
        (r for r in candidates if r.id not in rejected),
        key=lambda r: (r.profile != endpoint.profile, _STANDING.index(r.provenance.status), r.id),
    )
    if fitting:
        first, *others = fitting
        passed = {r.id: _passed_over(r, first, endpoint) for r in others}
        lines = tuple(f"{name}: {reason}" for name, reason in {**passed, **rejected}.items())
        return first, Decision(choice="recipe", value=first.id, reason=_reason(first, endpoint), rejected=lines)
    if candidates:
        raise InvalidInput(
            f"No recipe for {endpoint.model} fits",
            why="; ".join(f"{name}: {reason}" for name, reason in rejected.items()),
            remedy="Change what the reasons name, or add a recipe of your own (docs/guides/recipes.md).",
            details={"rejected": rejected},
        )
    if facts is not None and facts.format == "gguf":
        return _estimated(endpoint, facts)
    raise _unknown(endpoint, catalog, facts)


def _unfit(recipe: Recipe, endpoint: Endpoint, inventory: Inventory) -> str | None:
    """What a recipe lacks; None where it lacks nothing."""
    hardware = recipe.hardware
    if endpoint.engine and endpoint.engine != recipe.engine.name:
        return f"its engine is {recipe.engine.name}, you asked for {endpoint.engine}"
    if endpoint.task not in recipe.tasks:
        return f"it does not serve the task {endpoint.task}"
    if hardware.nodes > 1:
        return f"it needs {hardware.nodes} nodes; placement {inventory.placement} is one machine"
    if hardware.kind == "gpu":
        name = (hardware.gpu or "").lower()
        having = [g for g in inventory.gpus if name in g.name.lower() and g.memory_bytes >= hardware.min_memory_bytes]
        if len(having) < hardware.count:
            return f"it needs {hardware.count} × {hardware.gpu}; this machine has {len(having)}"
    elif kv_bytes(recipe.model.facts, 1) is None and hardware.min_memory_bytes > inventory.memory_bytes:
        # Where facts are known, the planner computes the need and says what would fit.
        missing = (hardware.min_memory_bytes - inventory.memory_bytes) / 2**20
        return f"it needs {missing:.0f} MiB more memory than this machine has"
    return None


def _reason(recipe: Recipe, endpoint: Endpoint) -> str:
    why = "you named it" if endpoint.recipe else f"made for {recipe.model.id}, and this machine can run it"
    if endpoint.recipe and endpoint.model.lower() not in {n.lower() for n in (recipe.model.id, *recipe.model.aliases)}:
        why += f", although it is made for {recipe.model.id}"
    if recipe.profile != endpoint.profile:
        why += f"; no recipe leans to {endpoint.profile}, this one is {recipe.profile}"
    return f"{why}; provenance: {recipe.provenance.status}"


def _passed_over(recipe: Recipe, first: Recipe, endpoint: Endpoint) -> str:
    if recipe.profile != first.profile:
        return f"it leans to {recipe.profile}, you want {endpoint.profile}"
    if recipe.provenance.status != first.provenance.status:
        return f"{recipe.provenance.status}, where the chosen one is {first.provenance.status}"
    return "as good; the first by name was taken"


def _unknown(endpoint: Endpoint, catalog: Catalog, facts: ModelFacts | None) -> UnknownModel:
    near = catalog.nearest_models(endpoint.model)
    tried = [f"{directory}: no recipe names it" for directory in catalog.directories]
    if facts is None:
        tried.append("facts of the model's own files: the spec names no file of this machine (path:…)")
    else:
        tried.append(f"facts of {facts.source}: {facts.format} needs a recipe, only GGUF does without")
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return UnknownModel(
        f"Nothing is known of the model {endpoint.model!r}",
        why="tried " + "; ".join(tried),
        remedy=f"{hint}Name a GGUF file (weights path:/FILE), or put a recipe into ~/.config/outrider/recipes or a"
        " directory in OUTRIDER_RECIPES: docs/guides/recipes.md says how.",
        details={"tried": tried, "nearest": near[0] if near else None, "suggestions": near},
    )


def _estimated(endpoint: Endpoint, facts: ModelFacts) -> tuple[Recipe, Decision]:
    if endpoint.engine not in (None, "llamacpp"):
        raise InvalidInput(
            f"{endpoint.engine} cannot serve {endpoint.model}",
            why="it is a GGUF file without a recipe, which only llamacpp serves",
            remedy="Leave engine out, or say: llamacpp",
        )
    recipe = _synthesised(endpoint, facts)
    reason = f"no recipe names the model; estimated from the {facts.source}, nothing was measured"
    return recipe, Decision(choice="recipe", value=recipe.id, reason=reason)


def _synthesised(endpoint: Endpoint, facts: ModelFacts) -> Recipe:
    context = min(facts.context_length or _UNKNOWN_CONTEXT, _UNKNOWN_CONTEXT)
    trained = f"the model was trained for {facts.context_length:,}" if facts.context_length else "its own is not known"
    flags = {
        "threads": ReasonedFlag(
            value=1, reason="llama.cpp's threads spin while they wait; raise it on cores of your own"
        ),
        "slots": ReasonedFlag(value=2, reason="requests decoded at once, until a measurement says more"),
        "context": ReasonedFlag(value=context, reason=f"tokens a request may hold; {trained}"),
        "prompt_cache_mib": ReasonedFlag(value=256, reason="MiB for prompts seen before; llama.cpp would take 8 GiB"),
    }
    return Recipe(
        schema_version=1,
        id=f"{endpoint.label}/estimated",
        version=1,
        model=RecipeModel(id=endpoint.model, facts=facts),
        precision=facts.quantisation or "unknown",
        weights=(WeightsSource(reference=endpoint.weights or endpoint.model, bytes=facts.file_bytes),),
        hardware=Hardware(kind="cpu", min_memory_bytes=facts.file_bytes or 0),
        engine=RecipeEngine(name="llamacpp", version="any"),
        tasks=("generate", "embed"),
        flags=flags,
        speculation=Speculation(method="off", reason="no drafter is known for this model"),
        limits=Limits(max_context=facts.context_length or context, max_concurrency=2),
        provenance=Provenance(status="estimated", note=f"made from the {facts.source}"),
    )
