"""Which recipes of the catalog a machine can run, and why not the others: each is planned like an endpoint. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from outrider.errors import OutriderError
from outrider.recipes.library import Catalog
from outrider.recipes.planner import plan
from outrider.recipes.schema import Recipe
from outrider.spec.endpoint import Endpoint
from outrider.spec.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Verdict:
    """One recipe on one machine.

    Attributes:
        recipe, model, engine: which.
        runnable: whether an endpoint of it can be made now.
        reason: why not; or what it takes, where it is.
        fix: what would make it run; empty where it runs, or nothing here would.
        memory_bytes: of one replica, where it is known.
        lacks_all_gpus: it is for GPUs, and the machine has none of any kind.
    """

    recipe: str
    model: str
    engine: str
    runnable: bool
    reason: str
    fix: str
    memory_bytes: int | None
    lacks_all_gpus: bool = False


def verdicts(
    inventory: Inventory,
    catalog: Catalog,
    *,
    broken: Mapping[str, str] | None = None,
    cached: Collection[str] = (),
    available_bytes: int | None = None,
) -> tuple[Verdict, ...]:
    """One a recipe, those that run first.

    Args:
        broken: engine → why it does not import here although it is installed.
        cached: digests of weights that need no download.
        available_bytes: memory that nobody uses now; None: not known.
    """
    found = [_verdict(recipe, inventory, catalog, broken or {}, cached, available_bytes) for recipe in catalog.all()]
    return tuple(sorted(found, key=lambda verdict: not verdict.runnable))


def _verdict(
    recipe: Recipe,
    inventory: Inventory,
    catalog: Catalog,
    broken: Mapping[str, str],
    cached: Collection[str],
    available: int | None,
) -> Verdict:
    endpoint = Endpoint(
        model=recipe.model.id, recipe=recipe.id, task=recipe.tasks[0], profile=recipe.profile, name="doctor"
    )
    try:
        planned = plan(endpoint, inventory, catalog)
    except OutriderError as error:
        why = (error.why or error.what).removeprefix(f"{recipe.id}: ")
        # A recipe that was rejected has no remedy of its own: the reason is all there is to say.
        verdict = _no(recipe, why, "" if "rejected" in error.details else error.remedy or "")
        return replace(verdict, lacks_all_gpus=recipe.hardware.kind == "gpu" and not inventory.gpus)
    need = planned.server.memory
    if (lacking := _engine(recipe, inventory, broken)) is not None:
        return _no(recipe, *lacking, need)
    if (lacking := _disk(recipe, inventory, cached)) is not None:
        return _no(recipe, *lacking, need)
    return Verdict(
        recipe.id, recipe.model.id, recipe.engine.name, True, _takes(recipe, need, cached, available), "", need
    )


def _takes(recipe: Recipe, need: int | None, cached: Collection[str], available: int | None) -> str:
    memory = "memory not known" if need is None else f"{need / 2**20:,.0f} MiB of memory"
    if need is not None and available is not None and need > available:
        memory += f" ({available / 2**20:,.0f} available now)"
    first = recipe.weights[0]
    weights = "weights of unknown size" if first.bytes is None else f"{first.bytes / 1e6:,.0f} MB to download"
    return f"{memory}, {'weights are here' if first.sha256 in cached else weights}, {recipe.provenance.status}"


def _no(recipe: Recipe, reason: str, fix: str, need: int | None = None) -> Verdict:
    return Verdict(recipe.id, recipe.model.id, recipe.engine.name, False, reason, fix, need)


def _engine(recipe: Recipe, inventory: Inventory, broken: Mapping[str, str]) -> tuple[str, str] | None:
    """Why the engine does not start; an environment of its own brings it."""
    name = recipe.engine.name
    if recipe.engine.environment.packages:
        return None
    if inventory.engines.get(name) is None:
        return (
            f"{name} is not installed in Outrider's Python",
            "pip install 'outrider[cpu]'" if name == "llamacpp" else "",
        )
    if name in broken:
        return f"{name} is installed and does not import: {broken[name]}", "See its finding below."
    return None


def _disk(recipe: Recipe, inventory: Inventory, cached: Collection[str]) -> tuple[str, str] | None:
    """Why the weights cannot be had."""
    first = recipe.weights[0]
    if first.bytes is None or first.sha256 in cached or first.bytes <= inventory.disk_free_bytes:
        return None
    have = f"{inventory.disk_free_bytes / 1e6:,.0f} MB are free under the cache"
    return (
        f"its weights take {first.bytes / 1e6:,.0f} MB; {have}",
        "Free some, or: export OUTRIDER_CACHE=/a/larger/disk",
    )
