"""Which recipe on which hardware: all pairs weighed, those that fail said why, the best of the others. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.errors import InvalidInput, ObjectiveUnreachable, UnknownModel
from outrider.recipes import shortfall
from outrider.recipes.appraisal import Appraisal, appraise
from outrider.recipes.candidate import STANDING, Pair, computes, devices_wanted, divides, nearest, pairs, unfit
from outrider.recipes.capacity import seconds
from outrider.recipes.device import same_kind
from outrider.recipes.fit import MIB
from outrider.recipes.given import Given, lay
from outrider.recipes.given import refusal as refusal_of
from outrider.recipes.library import Catalog
from outrider.recipes.plan import Considered, Decision, MemoryPlan, Part
from outrider.recipes.reading import Files
from outrider.recipes.schema import Recipe
from outrider.recipes.setting import refusal, wrong_flags
from outrider.recipes.synthesis import on_cpu, on_gpus
from outrider.spec.endpoint import Endpoint
from outrider.spec.facts import ModelFacts
from outrider.spec.inventory import Inventory

_DEAREST = float("inf")
_FARTHER = "another recipe of its engine, precision and profile is nearer to this hardware"


@dataclass(frozen=True, slots=True)
class Choice:
    """The pair that was chosen, why, and everything that was looked at."""

    chosen: Appraisal
    decision: Decision
    considered: tuple[Considered, ...]
    given: Given


def choose(
    endpoint: Endpoint, inventory: Inventory, catalog: Catalog, facts: ModelFacts | None, files: Files
) -> Choice:
    """The best pair for an endpoint.

    Raises:
        RecipeNotFound: the endpoint names one that there is not. UnknownModel: no recipe and no facts.
        InvalidInput: nothing that this machine and this endpoint allow, or nothing that fits.
        InvalidSpec: flags that no engine takes.
        ObjectiveUnreachable: what fits does not meet the objective.
        WeightsUnfit, AdapterUnfit, DrafterUnfit: no recipe can take what the endpoint brings.
    """
    recipes = [catalog.get(endpoint.recipe)] if endpoint.recipe else catalog.for_model(endpoint.model)
    usable, rejected = _usable(endpoint, inventory, recipes)
    found, others = pairs(endpoint, inventory, usable)
    rejected |= others
    if not found and not endpoint.recipe:
        found = _synthesised(endpoint, inventory, recipes, facts)
    if not found:
        if recipes:
            raise _none_possible(endpoint, inventory, usable, rejected)
        raise _unknown(endpoint, catalog, facts, inventory)
    found, given = _laid(found, endpoint, facts, files, rejected)
    weighed = [appraise(pair, endpoint, inventory, facts) for pair in found]
    fitting = sorted(_nearest([one for one in weighed if one.stage is None]), key=lambda one: _order(one, endpoint))
    failing = _nearest([one for one in weighed if one.stage is not None])
    if not fitting:
        raise _refusal(endpoint, inventory, failing, rejected, usable)
    first, *behind = fitting
    passed = {one.pair.label: _passed_over(one, first, endpoint) for one in behind}
    lines = (*_lines(behind, passed), *_lines(_closest(failing), {one.pair.label: one.reason for one in failing}))
    shown = {one.pair.recipe.id for one in (*fitting, *failing)}
    rejected |= {pair.recipe.id: _FARTHER for pair in found if pair.recipe.id not in shown}
    lines += tuple(f"{name}: {reason}" for name, reason in rejected.items())
    estimated = first.pair.recipe.id not in {recipe.id for recipe in recipes}
    reason = _reason(first, endpoint, estimated=estimated)
    decision = Decision(choice="recipe", value=first.pair.recipe.id, reason=reason, rejected=lines)
    considered = _considered(first, reason, behind, passed, failing)
    return Choice(first, decision, considered, given[first.pair.recipe.id])


def _laid(
    found: Sequence[Pair], endpoint: Endpoint, facts: ModelFacts | None, files: Files, rejected: dict[str, str]
) -> tuple[list[Pair], dict[str, Given]]:
    """The pairs with what the endpoint brings; those that cannot take it go to ``rejected``."""
    laid, given, unfit = lay(found, endpoint, facts, files)
    if not laid:
        raise refusal_of(unfit)
    rejected |= {name: error.why or error.what for name, error in unfit.items()}
    return laid, given


def _nearest(ones: Sequence[Appraisal]) -> list[Appraisal]:
    by_pair = {id(one.pair): one for one in ones}
    return [by_pair[id(pair)] for pair in nearest([one.pair for one in ones])]


def _closest(failing: Sequence[Appraisal]) -> list[Appraisal]:
    """Of a recipe that does not fit on several numbers of GPUs the one that lacks least: fewer lack more."""
    least: dict[tuple[str, str, str], Appraisal] = {}
    for one in failing:
        device = str(one.pair.device) if one.stage != "fit" else one.pair.device.name
        key = one.pair.recipe.id, one.stage or "", device
        if key not in least or one.fit.missing < least[key].fit.missing:
            least[key] = one
    return list(least.values())


def _lines(ones: Sequence[Appraisal], reasons: dict[str, str]) -> tuple[str, ...]:
    """One line a recipe and reason, whatever the number of GPUs."""
    devices: dict[tuple[str, str], list[str]] = {}
    for one in ones:
        key = one.pair.recipe.id, reasons[one.pair.label]
        devices.setdefault(key, []).append(str(one.pair.device) if one.pair.device.kind == "gpu" else "")
    return tuple(
        f"{recipe}{' on ' if any(where) else ''}{', '.join(filter(None, where))}: {reason}"
        for (recipe, reason), where in devices.items()
    )


def _usable(endpoint: Endpoint, inventory: Inventory, recipes: Sequence[Recipe]) -> tuple[list[Recipe], dict[str, str]]:
    """Recipes whose engines take the flags; and why not the others.

    Raises:
        InvalidSpec: flags that none of those which are possible otherwise takes.
    """
    wrong = {recipe.id: wrong_flags(endpoint, recipe) for recipe in recipes}
    possible = [recipe for recipe in recipes if unfit(recipe, endpoint, inventory) is None]
    if possible and all(wrong[recipe.id] for recipe in possible):
        first = min(possible, key=lambda r: (r.profile != endpoint.profile, STANDING.index(r.provenance.status), r.id))
        raise refusal(first, wrong[first.id])
    refused = {name: "; ".join(p["message"] for p in problems) for name, problems in wrong.items() if problems}
    return [recipe for recipe in recipes if not wrong[recipe.id]], refused


def _order(one: Appraisal, endpoint: Endpoint) -> tuple[object, ...]:
    """What nobody would bear comes last, before it what nobody has run, since its figures are nobody's; of the rest
    the profile asked for is first, then the cheapest, the fewest GPUs, the best provenance."""
    status = one.pair.provenance().status
    cost = one.prediction.usd_per_mtok if one.prediction else None
    return (
        not one.pair.device.here,
        one.target is not None and not one.target.pleasant,
        status == "untested",
        one.pair.recipe.profile != endpoint.profile,
        _DEAREST if cost is None else cost,
        one.pair.device.gpus,
        STANDING.index(status),
        one.pair.recipe.id,
        one.pair.device.name,
    )


def _passed_over(one: Appraisal, first: Appraisal, endpoint: Endpoint) -> str:
    """The first thing in which it is behind."""
    status, best = one.pair.provenance().status, first.pair.provenance().status
    if one.pair.device.here != first.pair.device.here:
        return "this machine does not have it"
    if one.target is not None and not one.target.pleasant and first.target is not None and first.target.pleasant:
        return f"made for loads at which people give up: {_figures(one)}"
    if (status == "untested") != (best == "untested"):
        return f"untested, where the chosen one is {best}"
    if one.pair.recipe.profile != first.pair.recipe.profile:
        return f"it leans to {one.pair.recipe.profile}, you want {endpoint.profile}"
    cost, least = (p.prediction.usd_per_mtok if p.prediction else None for p in (one, first))
    if cost is None and least is not None:
        return "what its tokens cost is not known"
    if cost is not None and least is not None and cost > least:
        return f"dearer: ${cost:.3g} a million tokens, the chosen one ${least:.3g}"
    if one.pair.device.gpus > first.pair.device.gpus:
        return f"it takes {one.pair.device.gpus} GPUs, the chosen one {first.pair.device.gpus}"
    if status != best:
        return f"{status}, where the chosen one is {best}"
    return "as good; the first by name was taken"


def _reason(first: Appraisal, endpoint: Endpoint, *, estimated: bool) -> str:
    recipe = first.pair.recipe
    if estimated:
        return f"no recipe names the model{_for_gpu(endpoint)}; {recipe.provenance.note}, nothing was measured"
    why = "you named it" if endpoint.recipe else f"made for {recipe.model.id}, and {_can(first)}"
    if endpoint.recipe and endpoint.model.lower() not in {n.lower() for n in (recipe.model.id, *recipe.model.aliases)}:
        why += f", although it is made for {recipe.model.id}"
    if recipe.profile != endpoint.profile:
        why += f"; no recipe leans to {endpoint.profile}, this one is {recipe.profile}"
    return f"{why}; provenance: {first.pair.provenance().status}"


def _for_gpu(endpoint: Endpoint) -> str:
    return f" for {endpoint.resources.gpu}" if endpoint.resources.gpu else ""


def _can(first: Appraisal) -> str:
    return "this machine can run it" if first.pair.device.here else f"{first.pair.device} can run it"


def _considered(
    first: Appraisal, reason: str, others: Sequence[Appraisal], passed: dict[str, str], failing: Sequence[Appraisal]
) -> tuple[Considered, ...]:
    rows = [_row(first, reason, chosen=True)]
    rows += [_row(one, passed[one.pair.label], chosen=False) for one in others]
    rows += [_row(one, one.reason, chosen=False) for one in failing]
    return tuple(rows)


def _row(one: Appraisal, reason: str, *, chosen: bool) -> Considered:
    return Considered(
        recipe=one.pair.recipe.id,
        hardware=str(one.pair.device),
        engine=one.pair.recipe.engine.name,
        provenance=one.pair.provenance().status,
        chosen=chosen,
        reason=reason,
        memory=memory_plan(one),
        prediction=one.prediction,
    )


def memory_plan(one: Appraisal) -> MemoryPlan:
    """The fit as it is shown and stored."""
    parts = tuple(Part(name=part.name, bytes=part.bytes) for part in one.fit.parts)
    return MemoryPlan(parts=parts, needed=one.fit.needed, available=one.fit.available, unknown=one.fit.unknown)


def _synthesised(
    endpoint: Endpoint, inventory: Inventory, recipes: Sequence[Recipe], facts: ModelFacts | None
) -> list[Pair]:
    """Pairs of recipes made from facts: the endpoint's own file's, else those that another recipe of the model has."""
    if facts is not None and facts.format == "gguf" and not recipes:
        if endpoint.engine not in (None, "llamacpp"):
            raise InvalidInput(
                f"{endpoint.engine} cannot serve {endpoint.model}",
                why="it is a GGUF file without a recipe, which only llamacpp serves",
                remedy="Leave engine out, or say: llamacpp",
            )
        return pairs(endpoint, inventory, [on_cpu(endpoint, facts)])[0]
    if endpoint.task != "generate" or endpoint.engine == "llamacpp":
        return []
    source = facts if facts is not None and facts.format == "safetensors" else None
    reference = endpoint.weights or endpoint.model
    wanted = devices_wanted(endpoint, inventory)
    known = [recipe for recipe in recipes if recipe.model.facts.format == "safetensors"]
    if source is None and known:
        # Weights that somebody served on such a GPU are in a form that it can compute with.
        alike = [r for r in known if any(same_kind(r.hardware.gpu or "", device.name) for device in wanted)]
        nearest_one = (alike or known)[0]
        source, reference = nearest_one.model.facts, endpoint.weights or nearest_one.weights[0].reference
    if source is None:
        return []
    fitting = [device for device in wanted if computes(source.quantisation, device.name)]
    devices = [device for device in fitting if divides(source, device.count)]
    return [Pair(on_gpus(endpoint, source, device, reference), device, tested=False) for device in devices]


def _none_possible(
    endpoint: Endpoint, inventory: Inventory, usable: Sequence[Recipe], rejected: dict[str, str]
) -> InvalidInput:
    """Nothing to weigh: what the recipes lack; where that is GPUs alone, how much and which would do."""
    alike: dict[str, list[str]] = {}
    for name, reason in rejected.items():
        alike.setdefault(reason, []).append(name)
    why = "; ".join(f"{', '.join(names)}: {reason}" for reason, names in alike.items())
    if len(alike) == 1 and len(rejected) > 1:
        why = f"all {len(rejected)} of its recipes: {next(iter(alike))}"
    remedy = "Change what the reasons name, or add a recipe of your own (docs/guides/recipes.md)."
    details: dict[str, object] = {"rejected": rejected}
    wanting = [recipe for recipe in usable if unfit(recipe, endpoint, inventory) is None]
    larger = shortfall.smallest(wanting, endpoint, inventory)
    if (
        larger is not None
        and larger.fit.needed is not None
        and not (inventory.gpus or endpoint.resources.gpu or endpoint.recipe)
    ):
        needed = larger.fit.needed * larger.pair.device.count
        why = (
            f"a replica needs {needed / MIB:,.0f} MiB of GPU memory, and this machine has none; recipes that were"
            f" looked at: {', '.join(rejected)}"
        )
        remedy = f"It fits on {larger.pair.device}: {larger.pair.recipe.id}. Plan for it with --gpu"
        remedy += f" '{larger.pair.device.name}:{larger.pair.device.count}'."
        details |= {"needed_bytes": needed, "available_bytes": 0}
    return InvalidInput(f"No recipe for {endpoint.model} fits", why=why, remedy=remedy, details=details)


def _refusal(
    endpoint: Endpoint,
    inventory: Inventory,
    weighed: Sequence[Appraisal],
    rejected: dict[str, str],
    usable: Sequence[Recipe],
) -> InvalidInput:
    behind = [one for one in weighed if one.stage in ("objective", "cost")]
    if behind:
        return _unreachable(endpoint, behind)
    closest = min(weighed, key=lambda one: one.fit.missing * one.pair.device.split)
    lacks = closest.pair.label if len(weighed) == 1 else f"{closest.pair.label}, which lacks least"
    others = {recipe.id: recipe for recipe in (*usable, *(one.pair.recipe for one in weighed))}
    return InvalidInput(
        f"{endpoint.model} does not fit",
        why=f"{lacks}: {closest.reason}",
        remedy=shortfall.remedy(closest, endpoint, inventory, list(others.values())),
        details={
            "needed_bytes": closest.fit.needed,
            "available_bytes": closest.fit.available,
            "candidates": {one.pair.label: one.reason for one in weighed} | rejected,
        },
    )


def _unreachable(endpoint: Endpoint, behind: Sequence[Appraisal]) -> ObjectiveUnreachable:
    best = min(behind, key=lambda one: _far(one, endpoint))
    figures = best.prediction
    had = "" if figures is None else f"; the best is {best.pair.label}: {_figures(best)}"
    return ObjectiveUnreachable(
        f"Nothing here meets the objective of {endpoint.label}",
        why=f"{best.reason}{had}",
        details={
            "best": None if figures is None else figures.model_dump(mode="json"),
            "recipe": best.pair.recipe.id,
            "candidates": {one.pair.label: one.reason for one in behind},
        },
    )


def _far(one: Appraisal, endpoint: Endpoint) -> tuple[bool, float, float]:
    """Latency first; of those which are too dear alone the one with the lowest price."""
    price = one.pair.device.usd_per_hour
    if one.stage == "objective":
        return False, _distance(one, endpoint), 0.0
    return True, _DEAREST if price is None else price, one.prediction.usd_per_mtok or 0.0 if one.prediction else 0.0


def _distance(one: Appraisal, endpoint: Endpoint) -> float:
    """How far the lightest load is from the bounds, the worst of them as a multiple."""
    if one.prediction is None:
        return _DEAREST
    wanted, tokens = endpoint.objective, endpoint.workload.output_tokens
    ttft, itl = one.prediction.ttft, one.prediction.itl
    e2e = None if ttft is None or itl is None else ttft + itl * (tokens - 1)
    bounds = ((ttft, wanted.ttft), (itl, wanted.itl), (e2e, wanted.e2e))
    return max((value / bound for value, bound in bounds if value and bound), default=0.0)


def _figures(one: Appraisal) -> str:
    made = one.prediction
    if made is None:
        return "nothing is known of its speed"
    ttft = "" if made.ttft is None else f"TTFT {seconds(made.ttft)}"
    itl = "" if made.itl is None else f"ITL {seconds(made.itl)}"
    load = f"at {made.concurrency} in flight, by {made.source}"
    return " ".join(part for part in (ttft, itl, load) if part)


def _unknown(endpoint: Endpoint, catalog: Catalog, facts: ModelFacts | None, inventory: Inventory) -> UnknownModel:
    near = catalog.nearest_models(endpoint.model)
    tried = [f"{directory}: no recipe names it" for directory in catalog.directories]
    if facts is None:
        tried.append("facts of the model's own files: the spec names no file of this machine (path:…)")
    elif inventory.gpus or endpoint.resources.gpu:
        tried.append(f"facts of {facts.source}: no engine here serves {facts.format} for {endpoint.task} so")
    else:
        tried.append(f"facts of {facts.source}: {facts.format} without a recipe needs a GPU, only GGUF does without")
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    files = (
        "a GGUF file (weights path:/FILE) or, for a GPU, a directory of safetensors (outrider model pull fetches one)"
    )
    if facts is not None and facts.format == "safetensors" and not (inventory.gpus or endpoint.resources.gpu):
        files = "a kind of GPU to plan for (--gpu H100)"
    return UnknownModel(
        f"Nothing is known of the model {endpoint.model!r}",
        why="tried " + "; ".join(tried),
        remedy=f"{hint}Name {files}, or put a recipe into ~/.config/outrider/recipes or a directory in"
        " OUTRIDER_RECIPES: docs/guides/recipes.md says how.",
        details={"tried": tried, "nearest": near[0] if near else None, "suggestions": near},
    )
