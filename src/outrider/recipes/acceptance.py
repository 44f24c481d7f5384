"""How many tokens a plan counts on committing in a verification step, and whose figure that is. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from outrider.recipes.drafting import DEFAULT_TOKENS
from outrider.recipes.schema import DrafterOption, Recipe, SliceOfTraffic, Speculation
from outrider.spec.workload import Workload

ASSUMED = 2.0
"""Acceptance length where nobody says one: below what was published for real prompts (2.46 to 3.5 with 3 tokens
drafted), since those are vendors' own, and near what a generic drafter reached on chat here (2.29)."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """The acceptance length, τ, that a plan counts on.

    Attributes:
        length: tokens committed a step, the bonus token included.
        source: whose figure it is, in words; empty without speculation.
        known: somebody saw it; False: it is assumed.
    """

    length: float
    source: str = ""
    known: bool = True


def expected(recipe: Recipe, speculation: Speculation, workload: Workload, *, own: bool) -> Acceptance:
    """What a drafter is counted on for: the smallest figure that fits the workload, so that speed is not promised on
    prompts that are easier to draft for than the users'.

    Args:
        own: the speculation is the one that the recipe's curve and observations were made with.
    """
    if speculation.method == "off":
        return Acceptance(1.0)
    seen = _seen(recipe) if own else None
    found = (
        seen or _listed(recipe, speculation, workload) or Acceptance(ASSUMED, "assumed, since nobody says", known=False)
    )
    most = (speculation.tokens or DEFAULT_TOKENS[speculation.method]) + 1
    if found.length > most:
        return replace(found, length=float(most), source=f"{found.source}, but a step has {most} tokens at most")
    return found


def _seen(recipe: Recipe) -> Acceptance | None:
    """Of the recipe itself: on its curve, else in its observations."""
    if lengths := [point.acceptance_length for point in recipe.capacity_curve if point.acceptance_length]:
        return Acceptance(min(lengths), f"the least of the recipe's curve, {recipe.provenance.status}")
    observed = [(one.acceptance_length, one.difference) for one in recipe.observations if one.acceptance_length]
    if observed:
        length, difference = min(observed)
        return Acceptance(length, f"the least of the recipe's observations ({difference})")
    return None


def _listed(recipe: Recipe, speculation: Speculation, workload: Workload) -> Acceptance | None:
    """Said of the drafter in the recipe's list: of the same weights, else of unnamed ones with its method."""
    alike = [option for option in recipe.drafters if option.method == speculation.method]
    weights = _repository(speculation.drafter)
    same = _least([one for one in alike if _repository(one.drafter) == weights], workload)
    return same or _least([one for one in alike if one.drafter is None], workload)


def _least(options: Sequence[DrafterOption], workload: Workload) -> Acceptance | None:
    """The smallest that any of them says for the workload."""
    found = [_of_slices(option.slices, workload) for option in options if option.slices]
    found += [
        Acceptance(option.acceptance_length, f"said by {option.source}")
        for option in options
        if option.acceptance_length and not option.slices
    ]
    return min(found, key=lambda one: one.length, default=None)


def _of_slices(slices: Sequence[SliceOfTraffic], workload: Workload) -> Acceptance:
    """The smallest of the workload's kind; of all where the workload does not say its kind."""
    structured = [one for one in slices if one.structured]
    fitting = structured if workload.structured_output and structured else slices
    names = ", ".join(f"{one.name} {one.acceptance_length:.3g}" for one in fitting)
    length = min(one.acceptance_length for one in fitting)
    if fitting is structured:
        return Acceptance(length, f"the least measured for structured output ({names})")
    return Acceptance(length, f"the least measured ({names}), since the workload does not say its kind")


def _repository(reference: str | None) -> str | None:
    """Without the revision."""
    return None if reference is None else reference.partition("@")[0]
