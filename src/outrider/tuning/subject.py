"""What is tuned: an endpoint as the API shows it, made into the tuner's job."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outrider.errors import InvalidInput, SourceEdited, UsageError, WeightsUnreadable
from outrider.models.drafter import read_drafter
from outrider.models.weights import Weights
from outrider.recipes.choice import choose
from outrider.recipes.library import Catalog
from outrider.recipes.plan import Plan
from outrider.recipes.reading import facts_of_spec, files_of_spec
from outrider.recipes.schema import Recipe
from outrider.spec.endpoint import Endpoint, parse
from outrider.spec.inventory import Inventory
from outrider.tuning.settings import STAGES, present, value_of
from outrider.tuning.tuner import Job
from outrider.tuning.workload import Traffic, read_workload


@dataclass(frozen=True, slots=True)
class Asked:
    """What a user asks of a tuning.

    Attributes:
        workload, concurrency: see :func:`~outrider.tuning.workload.read_workload`.
        budget: seconds.
        seed: of prompts and of confidence intervals.
        stages: what is varied; empty: everything.
        methods: of speculation; empty: all there are.
    """

    workload: str
    budget: float
    seed: int
    concurrency: int | None = None
    stages: Sequence[str] = ()
    methods: Sequence[str] = ()


def job(
    view: Mapping[str, Any], revision: Mapping[str, Any], asked: Asked, *, inventory: Inventory, catalog: Catalog
) -> Job:
    """The tuner's job.

    Args:
        view, revision: the endpoint and its wanted revision, as the REST API gives them.

    Raises:
        SourceEdited: it runs a file that was edited by hand, whose settings nobody but its author can vary.
        InvalidInput: it does not generate text. UsageError: a stage that there is not.
        InvalidWorkload, InvalidTrace, NotFound: the workload cannot be read.
    """
    _refuse(view, revision, asked)
    spec, plan = parse(view["spec"]), Plan.model_validate(revision["plan"])
    if plan.task != "generate":
        why = f"its task is {plan.task}"
        raise InvalidInput(f"{plan.endpoint} cannot be tuned", why=why, remedy="Tune one that generates.")
    recipe = _recipe(spec, plan, inventory, catalog)
    context = value_of(plan, present(plan), "context")
    return Job(
        plan=plan,
        recipe=recipe,
        traffic=_traffic(spec, plan, asked),
        objective=spec.objective,
        budget=asked.budget,
        seed=asked.seed,
        cores=inventory.cores,
        context=context if isinstance(context, int) else recipe.model.facts.context_length,
        stages=tuple(stage for stage in STAGES if not asked.stages or stage in asked.stages),
        methods=tuple(asked.methods) or None,
        trained=trained([plan.speculation.drafter, *(option.drafter for option in recipe.drafters)]),
    )


def trained(drafters: Iterable[str | None]) -> dict[str, int]:
    """Tokens that drafters were trained to draft a step, the bonus token not counted; of those whose files are here.

    Files that cannot be read tell nothing: the drafter's first trial fails, and says why.
    """
    found = {}
    for reference in drafters:
        path = None if reference is None else Weights(reference).cached(lambda progress: None)
        if reference is None or path is None:
            continue
        with contextlib.suppress(WeightsUnreadable):
            if block := read_drafter(path).block_size:
                found[reference] = block - 1
    return found


def _refuse(view: Mapping[str, Any], revision: Mapping[str, Any], asked: Asked) -> None:
    for stage in asked.stages:
        if stage not in STAGES:
            raise UsageError(f"{stage!r} cannot be varied", remedy=f"Choose among: {', '.join(STAGES)}.")
    if not view.get("spec") or not revision.get("plan") or view.get("source_edited"):
        raise SourceEdited(
            f"{view['name']} runs a serve.py edited by hand, which has no settings to vary",
            remedy="Give it a spec again: outrider endpoint apply -f FILE --replace-source",
        )


def _traffic(spec: Endpoint, plan: Plan, asked: Asked) -> Traffic:
    """The workload as one replica gets it."""
    replicas = max(1, spec.scaling.min_replicas)
    wanted = spec.workload.concurrency
    usual = math.ceil(wanted / replicas) if wanted else round(plan.server.target_concurrency or 1)
    rate = None if spec.workload.rate is None else spec.workload.rate / replicas
    return read_workload(asked.workload, concurrency=asked.concurrency, usual=max(1, usual), rate=rate)


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
