"""The smallest change that makes an endpoint fit, where nothing does. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from outrider.models.precision import smaller
from outrider.recipes.appraisal import Appraisal, appraise
from outrider.recipes.candidate import Pair, computes, made_for
from outrider.recipes.device import counts, kinds, of_kind
from outrider.recipes.drafting import draft
from outrider.recipes.fit import gpu_fit, weights_bytes
from outrider.recipes.gpus import GpuFacts, gpu_facts, gpus
from outrider.recipes.memory import largest_context
from outrider.recipes.schema import Recipe
from outrider.spec.endpoint import Endpoint
from outrider.spec.inventory import Inventory

_MOST = 8
"""GPUs of one machine, as they are sold."""


def remedy(nearest: Appraisal, endpoint: Endpoint, inventory: Inventory, recipes: Sequence[Recipe]) -> str:
    """What to change: requests and context, precision, then hardware; the first that helps, and the hardware always.

    Args:
        nearest: of all that do not fit the one that lacks least.
        recipes: all that other hardware could be had for, those that were never weighed here included.
    """
    found = _on_cpu(nearest) if nearest.pair.device.kind == "cpu" else _requests(nearest) or _precision(nearest)
    larger = smallest(recipes, endpoint, inventory)
    more = "" if larger is None else f"It fits on {larger.pair.device}: {larger.pair.recipe.id}."
    return " ".join(part for part in (found, more) if part) or _NOTHING


_NOTHING = "No context is small enough: take a smaller model or precision, or more memory."


def _on_cpu(found: Appraisal) -> str:
    """The change that leaves most: less context with these slots, else with one slot and no prompt cache."""
    if found.weights is None or not found.fit.parts:
        return ""
    have, slots = found.fit.available, int(found.values.get("slots") or 1)
    cap = found.values.get("prompt_cache_mib")
    if context := largest_context(have, found.facts, found.weights, slots=slots, prompt_cache_mib=cap):
        return f"It fits with a context of {context:,} tokens: set flags.context to {context}."
    if context := largest_context(have, found.facts, found.weights, slots=1, prompt_cache_mib=0):
        return (
            f"It fits with one slot of {context:,} tokens and no prompt cache: set flags.slots to 1, flags.context to"
            f" {context} and flags.prompt_cache_mib to 0."
        )
    return ""


def _requests(found: Appraisal) -> str:
    """Fewer requests in flight, or a shorter context where the user set one."""
    if not found.fit.parts:
        return ""
    for requests in range(found.load.requests - 1, 0, -1):
        if _fits(found, requests, found.load.context):
            return f"It fits with {requests} requests in flight: set flags.slots to {requests}."
    for steps in range(found.load.context // 256, 0, -1):
        if _fits(found, 1, steps * 256):
            return f"It fits with a context of {steps * 256:,} tokens: set flags.context to {steps * 256}."
    return ""


def _fits(found: Appraisal, requests: int, context: int, weights: int | None = None) -> bool:
    load = replace(found.load, requests=requests, context=context, tokens=min(found.load.tokens, context))
    drafter = draft(found.speculation, found.facts)
    device = found.pair.device
    return not gpu_fit(found.facts, weights or found.weights, device, load, drafter, found.values).missing


def _precision(found: Appraisal) -> str:
    for name in smaller(found.pair.recipe.precision):
        size = weights_bytes(found.pair.recipe, found.facts, name)
        if size is not None and found.fit.parts and _fits(found, found.load.requests, found.load.tokens, size):
            return f"It fits with weights in {name}."
    return ""


def smallest(recipes: Sequence[Recipe], endpoint: Endpoint, inventory: Inventory) -> Appraisal | None:
    """The cheapest hardware of the table that a recipe fits on; None: none does.

    Kinds that the machine has come first, then those that the recipes were made for: their flags are known to work.
    """
    own = {device.name for device in map(_device, recipes) if device} | set(kinds(inventory))
    fitting = [
        found for recipe in recipes if recipe.hardware.kind == "gpu" for found in _fitting(recipe, endpoint, inventory)
    ]

    def order(one: Appraisal) -> tuple[bool, bool, float, int, bool]:
        device, tested = one.pair.device, one.pair.tested
        elsewhere, foreign = device.name not in kinds(inventory), device.name not in own
        return elsewhere, foreign, device.usd_per_hour or inf, device.count, not tested

    return min(fitting, key=order, default=None)


def _device(recipe: Recipe) -> GpuFacts | None:
    return gpu_facts(recipe.hardware.gpu or "")


def _fitting(recipe: Recipe, endpoint: Endpoint, inventory: Inventory) -> Iterator[Appraisal]:
    """For each kind of GPU the smallest number on which it fits."""
    free = endpoint.model_copy(update={"resources": endpoint.resources.model_copy(update={"gpu": None})})
    for kind in (kind for kind in gpus() if computes(recipe.precision, kind.name)):
        for count in counts(_MOST):
            device = of_kind(kind, kind.name, count, memory=kind.memory_bytes, here=False)
            found = appraise(Pair(recipe, device, made_for(recipe, device)), free, inventory, None)
            if not found.fit.missing:
                yield found
                break
