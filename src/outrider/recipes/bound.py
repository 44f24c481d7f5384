"""Drafters that somebody bound to a target's weights, and whether ``auto`` uses one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from outrider.recipes.schema import DrafterOption, Recipe, Speculation

Method = Literal["dflash", "eagle3", "draft"]


@dataclass(frozen=True, slots=True)
class BoundDrafter:
    """A drafter of the registry.

    Attributes:
        name: in the registry.
        reference: its weights.
        method: what an engine is told.
        tokens: drafted a step, without the bonus token; None: not known.
        quantization: of its weights; ``none`` for bf16 and fp16.
        acceptance_length: τ of the slice where it is smallest, the bonus token included; None: never measured.
        max_context: tokens it was trained for; None: not known.
    """

    name: str
    reference: str
    method: Method
    tokens: int | None
    quantization: str
    acceptance_length: float | None
    max_context: int | None


Bound = Mapping[str, BoundDrafter]
"""Digest of a target's weights, or a reference that is known to be those → its drafter."""


def bound_to(recipe: Recipe, weights: str | None, drafters: Bound) -> BoundDrafter | None:
    """The drafter of the weights that would run: the endpoint's own, else the recipe's first file."""
    first = recipe.weights[0]
    keys = (weights,) if weights is not None else (first.sha256, first.reference)
    return next((drafters[key] for key in keys if key is not None and key in drafters), None)


def speculation(drafter: BoundDrafter, recipe: Recipe, *, concurrency: int | None) -> Speculation:
    """What ``auto`` makes of a bound drafter: it is used unless the recipe knows that it does not pay.

    Args:
        concurrency: requests in flight of one replica; None: not known, so the lightest load counts.
    """
    needed = break_even(recipe, drafter.method, concurrency or 1, drafter.tokens)
    has = drafter.acceptance_length
    if needed is not None and (has is None or has < needed):
        known = "its τ was never measured" if has is None else f"its τ is {has:.2f}"
        why = f"{drafter.name} is bound to these weights, but drafting pays here from τ {needed:.2f}, and {known}"
        return Speculation(method="off", reason=why)
    if recipe.engine.name == "llamacpp" and not drafter.reference.endswith(".gguf"):
        why = f"{drafter.name} is bound to these weights, but llama.cpp reads a GGUF file: outrider drafter export"
        return Speculation(method="off", reason=why)
    measured = "" if has is None else f", τ {has:.2f} where it is smallest"
    return Speculation(
        method=drafter.method,
        drafter=drafter.reference,
        quantization=drafter.quantization,
        tokens=drafter.tokens,
        reason=f"{drafter.name} is bound to these weights{measured}",
    )


def listed(drafter: BoundDrafter, recipe: Recipe) -> Recipe:
    """The recipe with the bound drafter first in its list, so that the plan counts on the τ that was measured of it."""
    option = DrafterOption(
        method=drafter.method,
        drafter=drafter.reference,
        quantization=drafter.quantization,
        tokens=drafter.tokens,
        acceptance_length=drafter.acceptance_length,
        source=f"the registry of {drafter.name}, where it is smallest",
    )
    return recipe.model_copy(update={"drafters": (option, *recipe.drafters)})


def break_even(recipe: Recipe, method: str, concurrency: int, tokens: int | None = None) -> float | None:
    """τ from which drafting is faster than plain decoding at a load, as the recipe knows it; None: it does not.

    That is as many times as long as a plain step as a step with drafting takes.

    Args:
        tokens: drafted a step; where the recipe knows several numbers of them, the same one's counts.
    """
    options = [option for option in recipe.drafters if option.method == method and option.break_even]
    if not options:
        return None
    same = [option for option in options if option.tokens == tokens]
    known = [point for option in same or options for point in option.break_even]
    below = [point for point in known if point.concurrency <= concurrency]
    nearest = max(below, key=lambda p: p.concurrency) if below else min(known, key=lambda p: p.concurrency)
    return nearest.acceptance_length
