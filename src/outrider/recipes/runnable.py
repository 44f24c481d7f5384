"""Which recipes of the catalog a machine can run, and why not the others: each is planned like an endpoint. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from outrider.errors import OutriderError
from outrider.recipes.library import Catalog
from outrider.recipes.planner import plan
from outrider.recipes.schema import Recipe
from outrider.spec.endpoint import Endpoint
from outrider.spec.inventory import Inventory

Hindrance = Callable[[Sequence[str]], tuple[str, str] | None]


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
        packages: of the environment that it gets, where it runs; empty: Outrider's own Python.
    """

    recipe: str
    model: str
    engine: str
    runnable: bool
    reason: str
    fix: str
    memory_bytes: int | None
    lacks_all_gpus: bool = False
    packages: tuple[str, ...] = ()


def verdicts(
    inventory: Inventory,
    catalog: Catalog,
    *,
    broken: Mapping[str, str] | None = None,
    hindrance: Hindrance = lambda packages: None,
    cached: Collection[str] = (),
    available_bytes: int | None = None,
) -> tuple[Verdict, ...]:
    """One a recipe, those that run first.

    Args:
        broken: engine → why it does not import here although it is installed.
        hindrance: packages of an environment → why it cannot be made or run here, and the fix; None: nothing known.
        cached: digests of weights that need no download.
        available_bytes: memory that nobody uses now; None: not known.
    """
    known = _Known(inventory, broken or {}, hindrance, cached, available_bytes)
    found = [_verdict(recipe, catalog, known) for recipe in catalog.all()]
    return tuple(sorted(found, key=lambda verdict: not verdict.runnable))


@dataclass(frozen=True, slots=True)
class _Known:
    """The machine, and what was found of it."""

    inventory: Inventory
    broken: Mapping[str, str]
    hindrance: Hindrance
    cached: Collection[str]
    available: int | None


def _verdict(recipe: Recipe, catalog: Catalog, known: _Known) -> Verdict:
    endpoint = Endpoint(
        model=recipe.model.id, recipe=recipe.id, task=recipe.tasks[0], profile=recipe.profile, name="doctor"
    )
    try:
        planned = plan(endpoint, known.inventory, catalog)
    except OutriderError as error:
        why = (error.why or error.what).removeprefix(f"{recipe.id}: ")
        # A recipe that was rejected has no remedy of its own: the reason is all there is to say.
        verdict = _no(recipe, why, "" if "rejected" in error.details else error.remedy or "")
        return replace(verdict, lacks_all_gpus=recipe.hardware.kind == "gpu" and not known.inventory.gpus)
    need = planned.server.memory
    if (lacking := _engine(recipe, planned.environment.packages, known)) is not None:
        return _no(recipe, *lacking, need)
    if (lacking := _disk(recipe, known.inventory, known.cached)) is not None:
        return _no(recipe, *lacking, need)
    takes = _takes(recipe, need, known.cached, known.available)
    packages = planned.environment.packages
    return Verdict(recipe.id, recipe.model.id, recipe.engine.name, True, takes, "", need, packages=packages)


def _takes(recipe: Recipe, need: int | None, cached: Collection[str], available: int | None) -> str:
    memory = "memory not known" if need is None else f"{need / 2**20:,.0f} MiB of memory"
    if need is not None and available is not None and need > available:
        memory += f" ({available / 2**20:,.0f} available now)"
    first = recipe.weights[0]
    weights = "weights of unknown size" if first.bytes is None else f"{first.bytes / 1e6:,.0f} MB to download"
    return f"{memory}, {'weights are here' if first.sha256 in cached else weights}, {recipe.provenance.status}"


def _no(recipe: Recipe, reason: str, fix: str, need: int | None = None) -> Verdict:
    return Verdict(recipe.id, recipe.model.id, recipe.engine.name, False, reason, fix, need)


def _engine(recipe: Recipe, packages: Sequence[str], known: _Known) -> tuple[str, str] | None:
    """Why the engine does not start; an environment of its own brings it, where that can be."""
    name = recipe.engine.name
    if packages:
        return known.hindrance(packages)
    if known.inventory.engines.get(name) is None:
        return (
            f"{name} is not installed in Outrider's Python",
            "pip install 'outrider[cpu]'" if name == "llamacpp" else "",
        )
    if name in known.broken:
        return f"{name} is installed and does not import: {known.broken[name]}", "See its finding below."
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
