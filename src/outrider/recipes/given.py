"""What a spec brings of its own laid into the recipes that could serve it: weights, drafter, adapters. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from outrider.engines import drafters
from outrider.errors import AdapterUnfit, DrafterUnfit, WeightsUnfit
from outrider.models import adapter
from outrider.recipes import bound, comparison, drafter_choice
from outrider.recipes.appraisal import requests_each
from outrider.recipes.candidate import Pair
from outrider.recipes.plan import AdapterPlan
from outrider.recipes.reading import Files
from outrider.recipes.schema import Recipe, Speculation
from outrider.spec.endpoint import Endpoint
from outrider.spec.facts import ModelFacts

Unfit = WeightsUnfit | AdapterUnfit | DrafterUnfit
"""Why a recipe cannot take what the spec brings."""
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Given:
    """What became of a spec's own parts with one recipe.

    Attributes:
        recipe: with the endpoint's own weights and drafter in it.
        weights: differences to the catalog model, a line each; None: not compared, for the endpoint brings none or
            they are not here.
        drafter: warnings.
        adapters: as they are planned.
    """

    recipe: Recipe
    weights: tuple[str, ...] | None = None
    drafter: tuple[str, ...] = ()
    adapters: tuple[AdapterPlan, ...] = ()


def lay(
    pairs: Sequence[Pair], endpoint: Endpoint, facts: ModelFacts | None, files: Files
) -> tuple[list[Pair], dict[str, Given], dict[str, Unfit]]:
    """The pairs with what the spec brings, what became of it by recipe, and why recipes cannot take it.

    Args:
        facts: of the endpoint's own weights, where they are here.
    """
    given: dict[str, Given] = {}
    unfit: dict[str, Unfit] = {}
    for recipe in {pair.recipe.id: pair.recipe for pair in pairs}.values():
        try:
            given[recipe.id] = _given(recipe, endpoint, facts, files)
        except (WeightsUnfit, AdapterUnfit, DrafterUnfit) as error:
            unfit[recipe.id] = error
    held = sum(files.adapters[name].bytes for name in endpoint.adapters if name in files.adapters)
    laid = [
        replace(pair, recipe=given[pair.recipe.id].recipe, adapters=held, offered=pair.recipe.speculation)
        for pair in pairs
        if pair.recipe.id in given
    ]
    return laid, given, unfit


def refusal(unfit: Mapping[str, Unfit]) -> Unfit:
    """The error where no recipe is left: the first recipe's, with the others' in its details."""
    first, *others = unfit.values()
    if others:
        first.details["candidates"] = {name: error.why or error.what for name, error in unfit.items()}
    return first


def _given(recipe: Recipe, endpoint: Endpoint, facts: ModelFacts | None, files: Files) -> Given:
    own = facts if endpoint.weights is not None else None
    differences = None
    # A recipe that was made from the files themselves has nothing to be compared with.
    if own is not None and recipe.model.facts is not own:
        recipe, differences = comparison.rebased(recipe, own, files)
    against = own or recipe.model.facts
    flag = recipe.flags.get("context")
    context = endpoint.flags.get("context", flag.value if flag else None)
    drafting, warnings = drafter_choice.chosen(
        endpoint.drafter.source, recipe, against, files, context if isinstance(context, int) else None
    )
    mine = bound.bound_to(recipe, endpoint.weights, files.bound)
    if endpoint.drafter.source == "auto" and mine is not None:
        drafting = bound.speculation(mine, recipe, concurrency=requests_each(endpoint))
        recipe = bound.listed(mine, recipe)
    adapters = _adapters(recipe, endpoint, against, files)
    if adapters:
        drafting, warnings = _beside(recipe, endpoint, drafting, warnings)
    return Given(recipe.model_copy(update={"speculation": drafting}), differences, warnings, adapters)


def _beside(
    recipe: Recipe, endpoint: Endpoint, drafting: Speculation, warnings: tuple[str, ...]
) -> tuple[Speculation, tuple[str, ...]]:
    """What speculates beside adapters: a drafter that the engine does not run there is dropped, unless it was named."""
    why = drafters.beside_adapters(drafting.method, recipe.engine.name, recipe.engine.version)
    if why is None:
        trained = ("it was trained for the model without adapters; their requests accept fewer drafts",)
        return drafting, warnings + (trained if drafting.drafter is not None else ())
    if endpoint.drafter.source not in ("auto", "off"):
        raise DrafterUnfit(
            f"{recipe.id} cannot use the drafter {endpoint.drafter.source} beside adapters",
            why=why,
            remedy="Leave one of them out, or name another engine.",
        )
    return Speculation(method="off", reason=f"it has adapters: {why}"), warnings


def _adapters(recipe: Recipe, endpoint: Endpoint, facts: ModelFacts, files: Files) -> tuple[AdapterPlan, ...]:
    if not endpoint.adapters:
        return ()
    if recipe.engine.name == "llamacpp":
        raise AdapterUnfit(
            "llama.cpp cannot choose an adapter by the request's model",
            why="its server takes adapters by number, in a field of the request's body; every other request would be"
            " answered with all of them or none",
            remedy="Use vLLM or SGLang (--engine), or merge the adapter into the weights and serve these.",
        )
    if endpoint.task != "generate":
        raise AdapterUnfit(
            f"Adapters do not serve the task {endpoint.task}", remedy="Leave them out, or say: task generate"
        )
    planned = []
    for name, reference in endpoint.adapters.items():
        read = files.adapters.get(name)
        if read is None:
            reason = (
                "its files are not on this machine yet: they are checked before the engine starts, and their memory is"
                " not counted"
            )
            planned.append(AdapterPlan(name=name, source=reference, sha256=None, rank=None, reason=reason))
            continue
        adapter.refuse(read.facts, name, facts)
        trained = f", trained on {read.facts.base}" if read.facts.base else ""
        reason = f"rank {read.facts.rank} on {', '.join(read.facts.targets)}{trained}; {read.bytes / _MIB:,.1f} MiB"
        pinned = f"{reason}; pinned by SHA-256 {read.sha256[:12]}…"
        rank = read.facts.rank
        planned.append(AdapterPlan(name=name, source=reference, sha256=read.sha256, rank=rank, reason=pinned))
    return tuple(planned)
