"""What is tuned: an endpoint as the API shows it, made into the tuner's job."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.errors import InvalidInput, SourceEdited, UsageError
from outrider.recipes.choice import choose
from outrider.recipes.library import Catalog
from outrider.recipes.plan import Plan
from outrider.recipes.reading import facts_of_spec, files_of_spec
from outrider.recipes.schema import Recipe
from outrider.spec.endpoint import Endpoint, parse
from outrider.spec.inventory import Inventory
from outrider.tuning.settings import STAGES, present, value_of
from outrider.tuning.tuner import Job
from outrider.tuning.workload import read_workload


def job(
    view: Mapping[str, Any],
    revision: Mapping[str, Any],
    *,
    inventory: Inventory,
    catalog: Catalog,
    workload: str,
    concurrency: int | None,
    budget: float,
    seed: int,
    stages: Sequence[str] = (),
    methods: Sequence[str] | None = None,
) -> Job:
    """The tuner's job.

    Args:
        view, revision: the endpoint and its wanted revision, as the REST API gives them.
        workload, concurrency: see :func:`~outrider.tuning.workload.read_workload`.
        stages: what is varied; empty: everything.

    Raises:
        SourceEdited: it runs a file that was edited by hand, whose settings nobody but its author can vary.
        InvalidInput: it does not generate text. UsageError: a stage that there is not.
        InvalidWorkload, InvalidTrace, NotFound: the workload cannot be read.
    """
    name = view["name"]
    for stage in stages:
        if stage not in STAGES:
            raise UsageError(f"{stage!r} cannot be varied", remedy=f"Choose among: {', '.join(STAGES)}.")
    if not view.get("spec") or not revision.get("plan") or view.get("source_edited"):
        raise SourceEdited(
            f"{name} runs a serve.py edited by hand, which has no settings to vary",
            remedy="Give it a spec again: outrider endpoint apply -f FILE --replace-source",
        )
    spec, plan = parse(view["spec"]), Plan.model_validate(revision["plan"])
    if plan.task != "generate":
        raise InvalidInput(f"{name} cannot be tuned", why=f"its task is {plan.task}", remedy="Tune one that generates.")
    recipe = _recipe(spec, plan, inventory, catalog)
    replicas = max(1, spec.scaling.min_replicas)
    wanted = spec.workload.concurrency
    usual = math.ceil(wanted / replicas) if wanted else round(plan.server.target_concurrency or 1)
    rate = None if spec.workload.rate is None else spec.workload.rate / replicas
    context = value_of(plan, present(plan), "context")
    return Job(
        plan=plan,
        recipe=recipe,
        traffic=read_workload(workload, concurrency=concurrency, usual=max(1, usual), rate=rate),
        objective=spec.objective,
        budget=budget,
        seed=seed,
        cores=inventory.cores,
        context=context if isinstance(context, int) else recipe.model.facts.context_length,
        stages=tuple(stage for stage in STAGES if not stages or stage in stages),
        methods=tuple(methods) if methods else None,
    )


def tuned_spec(spec: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """The endpoint's spec with a tuned recipe in the place of its own flags and drafter, which the recipe holds."""
    kept = {name: value for name, value in spec.items() if name not in ("flags", "drafter", "recipe")}
    flags = {name: value for name, value in spec.get("flags", {}).items() if name not in recipe.flags}
    return {**kept, "recipe": recipe.id, "flags": {name: v for name, v in flags.items() if "speculative." not in name}}


def _recipe(spec: Endpoint, plan: Plan, inventory: Inventory, catalog: Catalog) -> Recipe:
    """The plan's recipe, from the catalog or made again from the model's facts."""
    for recipe in catalog.all():
        if recipe.id == plan.recipe:
            return recipe
    return choose(spec, inventory, catalog, facts_of_spec(spec), files_of_spec(spec, catalog)).chosen.pair.recipe
