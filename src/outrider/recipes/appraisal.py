"""One recipe on one device, weighed for an endpoint: does it fit, how fast is it, what does it cost. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from outrider.recipes import capacity
from outrider.recipes.acceptance import expected
from outrider.recipes.bound import break_even
from outrider.recipes.candidate import Pair
from outrider.recipes.drafting import NONE, draft
from outrider.recipes.fit import MIB, Fit, Load, Part, gpu_fit, weights_bytes
from outrider.recipes.memory import need
from outrider.recipes.plan import Prediction
from outrider.recipes.prediction import Curve, curve_of, predicted
from outrider.recipes.roofline import Model
from outrider.recipes.schema import Recipe, Speculation
from outrider.spec.endpoint import Endpoint
from outrider.spec.facts import ModelFacts
from outrider.spec.inventory import Inventory
from outrider.spec.workload import Workload

_CONTEXT_STEP = 256
"""Tokens; contexts are planned in steps of it."""


@dataclass(frozen=True, slots=True)
class Appraisal:
    """What was found of a pair.

    Attributes:
        facts: of the weights that would run.
        weights: their size, bytes; None: not known.
        values: flags in effect, the endpoint's over the recipe's, and what the fit changed.
        changed: flags that the fit changed, with the reason.
        load: what the replica is to hold.
        most: requests a replica may hold.
        curve, target, prediction: see their modules; target and prediction are None where nothing can be said.
        flow: what the workload's arrivals come to; None: none are given, or nothing is known of the speed.
        stage, reason: where and why it was rejected; stage None: it was not.
    """

    pair: Pair
    facts: ModelFacts
    weights: int | None
    values: Mapping[str, Any]
    changed: Mapping[str, str]
    speculation: Speculation
    load: Load
    most: int
    fit: Fit
    curve: Curve
    target: capacity.Target | None
    prediction: Prediction | None
    stage: Literal["fit", "objective", "cost"] | None = None
    reason: str = ""
    flow: capacity.Flow | None = None


def appraise(pair: Pair, endpoint: Endpoint, inventory: Inventory, facts: ModelFacts | None) -> Appraisal:
    """Weigh a pair. ``facts`` are of the endpoint's own weights, where it names some.

    Arrivals a second without a concurrency are as many requests in flight as this pair's own speed makes of them.
    """
    found = _weighed(pair, endpoint, inventory, facts)
    workload, count = endpoint.workload, max(1, endpoint.scaling.min_replicas)
    if workload.rate is None or workload.concurrency is not None:
        return found
    flow = capacity.in_flight(found.curve.points, workload.rate / count, workload.output_tokens)
    if flow is None:
        return found
    held = workload.model_copy(update={"concurrency": float(flow.requests * count)})
    again = _weighed(pair, endpoint.model_copy(update={"workload": held}), inventory, facts, arriving=True)
    return replace(again, flow=flow, target=_arriving(again.target, workload, count))


def _arriving(aim: capacity.Target | None, workload: Workload, count: int) -> capacity.Target | None:
    """The target with the replicas that arrivals take at it, where they are more than there are."""
    done = None if aim is None or aim.point is None else capacity.finished_by(aim.point, workload.output_tokens)
    if aim is None or done is None or workload.rate is None or workload.rate <= done * count:
        return aim
    needed = math.ceil(workload.rate / done)
    return replace(aim, reason=f"{aim.reason}; your {workload.rate:g} requests a second need {needed} replicas")


def _weighed(
    pair: Pair, endpoint: Endpoint, inventory: Inventory, facts: ModelFacts | None, *, arriving: bool = False
) -> Appraisal:
    """Once; ``arriving``: the workload's concurrency is made of its arrivals, so that it says nothing of replicas."""
    recipe = pair.recipe
    own = facts if endpoint.weights else None
    known = own or recipe.model.facts
    # Weights that are not here are planned as the catalog model's: their sizes are checked before the engine starts.
    weights = weights_bytes(recipe, known) if own is None else own.file_bytes
    values: dict[str, Any] = {name: flag.value for name, flag in recipe.flags.items()} | dict(endpoint.flags)
    changed: dict[str, str] = {}
    slots = int(values.get("slots") or recipe.limits.max_concurrency)
    _lengthened(endpoint, recipe, known, values, changed)
    load = replace(_load(endpoint, values, known, slots), adapters=pair.adapters)
    speculation = _speculation(endpoint, pair)
    fit = _fit(pair, endpoint, inventory, known, weights, load, values, speculation)
    if pair.device.kind == "gpu" and fit.missing and fit.parts and "context" not in endpoint.flags:
        fit, load = _shortened(pair, known, weights, load, values, speculation, changed, fit)
    if pair.device.count > 1 and pair.device.kind == "gpu" and values.get("gpus") != pair.device.count:
        values["gpus"] = pair.device.count
        changed["gpus"] = f"every layer is divided among the {pair.device.count} GPUs of this plan"
    most = endpoint.scaling.max_concurrency or slots
    model = Model(known, weights or 0, recipe.precision, recipe.engine.name, values)
    loads = _loads(pair, known, weights, load, values, speculation, most)
    curve = curve_of(pair, model, weights, speculation, endpoint.workload, loads)
    target = capacity.target(
        curve.points,
        endpoint.objective,
        most=most,
        output_tokens=endpoint.workload.output_tokens,
        workload=None if arriving else endpoint.workload.concurrency,
        known=curve.known,
        patient=endpoint.profile == "throughput",
    )
    each = requests_each(endpoint)
    at = target.concurrency if target else 1
    prediction = predicted(curve, min(each, at) if each else at, pair.device)
    found = Appraisal(pair, known, weights, values, changed, speculation, load, most, fit, curve, target, prediction)
    return _judged(found, endpoint)


def _judged(found: Appraisal, endpoint: Endpoint) -> Appraisal:
    if found.fit.missing:
        return replace(found, stage="fit", reason=lacking(found, endpoint))
    if found.target is not None and not found.target.met:
        return replace(found, stage="objective", reason=f"{found.target.reason} ({found.curve.source})")
    price, ceiling = found.pair.device.usd_per_hour, endpoint.objective.usd_per_hour
    if price is not None and ceiling is not None:
        count = max(1, endpoint.scaling.min_replicas)
        if price * count > ceiling:
            reason = f"it costs ${price * count:.2f} an hour, ${ceiling:g} allowed"
            return replace(found, stage="cost", reason=reason)
    return found


def lacking(found: Appraisal, endpoint: Endpoint) -> str:
    """How much memory is missing, in words."""
    fit, count = found.fit, max(1, endpoint.scaling.min_replicas)
    if found.pair.device.kind == "gpu":
        each = "each of its GPUs" if found.pair.device.count > 1 else "its GPU"
        whose = f"{each} can give to it"
        return f"needs {(fit.needed or 0) / MIB:,.0f} MiB, {fit.missing / MIB:,.0f} MiB more than {whose}"
    whose = "this machine has"
    if count > 1:
        whose = f"this machine has for each of {count} replicas"
    if endpoint.resources.memory is not None and fit.available == endpoint.resources.memory:
        whose = "resources.memory allows"
    return f"a replica needs {(fit.needed or 0) / MIB:,.0f} MiB, {fit.missing / MIB:,.0f} MiB more than {whose}"


def _lengthened(
    endpoint: Endpoint, recipe: Recipe, facts: ModelFacts, values: dict[str, Any], changed: dict[str, str]
) -> None:
    """A context that holds the workload's requests, where model and recipe go so far."""
    wanted, has = endpoint.workload.input_tokens + endpoint.workload.output_tokens, values.get("context")
    most = min(facts.context_length or 0, recipe.limits.max_context or facts.context_length or 0)
    if has is None or "context" in endpoint.flags or not int(has) < wanted <= most:
        return
    values["context"] = min(-(-wanted // _CONTEXT_STEP) * _CONTEXT_STEP, most)
    changed["context"] = f"tokens a request may hold: the workload's have {wanted:,}"


def _load(endpoint: Endpoint, values: Mapping[str, Any], facts: ModelFacts, slots: int) -> Load:
    tokens = endpoint.workload.input_tokens + endpoint.workload.output_tokens
    context = int(values.get("context") or facts.context_length or tokens)
    each = requests_each(endpoint)
    return Load(requests=min(slots, each) if each else 1, tokens=min(tokens, context), context=context)


def requests_each(endpoint: Endpoint) -> int | None:
    """Requests in flight of each replica; None: the spec does not say."""
    if endpoint.workload.concurrency is None:
        return None
    return math.ceil(endpoint.workload.concurrency / max(1, endpoint.scaling.min_replicas))


def _speculation(endpoint: Endpoint, pair: Pair) -> Speculation:
    """What was laid into the recipe, unless it does not pay at this load or the endpoint turns it off."""
    chosen = pair.recipe.speculation
    if chosen.method == "off":
        return chosen
    if endpoint.drafter.source == "off":
        return Speculation(method="off", reason="set by you")
    why = _unprofitable(endpoint, pair) if endpoint.drafter.source == "auto" else None
    return chosen if why is None else Speculation(method="off", reason=why)


def _unprofitable(endpoint: Endpoint, pair: Pair) -> str | None:
    """Why the drafter makes answers slower at this load; None: nobody says that it does."""
    recipe, chosen, each = pair.recipe, pair.recipe.speculation, requests_each(endpoint)
    most = chosen.max_useful_concurrency
    if each and most and each > most:
        return f"{chosen.method} pays up to {most} requests in flight, {each} are expected"
    needed = break_even(recipe, chosen.method, each or 1, chosen.tokens)
    counted = expected(recipe, chosen, endpoint.workload, own=pair.drafts_as_offered(chosen))
    if needed is None or not counted.known or counted.length >= needed:
        return None
    pays = f"{chosen.method} pays from τ {needed:.3g} with {each or 1} in flight"
    return f"{pays}, and only {counted.length:.3g} can be counted on, {counted.source}"


def _fit(
    pair: Pair,
    endpoint: Endpoint,
    inventory: Inventory,
    facts: ModelFacts,
    weights: int | None,
    load: Load,
    values: Mapping[str, Any],
    speculation: Speculation,
) -> Fit:
    recipe = pair.recipe
    if pair.device.kind == "gpu":
        found = gpu_fit(facts, weights, pair.device, load, draft(speculation, facts), values)
        return found if found.needed is not None else _stated(pair, found.available, found.unknown)
    available = inventory.memory_bytes // max(1, endpoint.scaling.min_replicas)
    if endpoint.resources.memory is not None:
        available = min(available, endpoint.resources.memory)
    if recipe.engine.name != "llamacpp":
        return _stated(pair, available, "what the engine itself needs on a CPU")
    slots, context = int(values.get("slots") or 1), load.context if "context" in values or facts.context_length else 0
    host = need(facts, weights, context=context, slots=slots, prompt_cache_mib=values.get("prompt_cache_mib"))
    if host is None or not context:
        missing = "the weights' size" if weights is None else "layers, KV heads or context"
        return _stated(pair, available, missing) if weights is None or context else Fit((), None, available, missing)
    parts = (
        Part("weights", host.weights),
        Part("KV cache", host.kv_cache),
        Part("prompts seen before", host.prompt_cache),
        Part("buffers", host.buffers),
    )
    return Fit(parts, host.total, available)


def _stated(pair: Pair, available: int, unknown: str) -> Fit:
    """What the recipe states, divided among as many GPUs as the device has."""
    made, stated = pair.recipe.hardware, pair.recipe.hardware.min_memory_bytes
    if not stated:
        return Fit((), None, available, unknown)
    if pair.device.kind == "gpu":
        stated = -(-stated * made.count // pair.device.count)
        available = pair.device.memory_bytes
    return Fit((), stated, available, unknown)


def _shortened(
    pair: Pair,
    facts: ModelFacts,
    weights: int | None,
    load: Load,
    values: dict[str, Any],
    speculation: Speculation,
    changed: dict[str, str],
    fit: Fit,
) -> tuple[Fit, Load]:
    """The longest context that fits and still holds the workload's requests; what was, where none does."""

    def tried(steps: int) -> Fit:
        shorter = replace(load, context=steps * _CONTEXT_STEP)
        return gpu_fit(facts, weights, pair.device, shorter, draft(speculation, facts), values)

    low, high = -(-load.tokens // _CONTEXT_STEP), load.context // _CONTEXT_STEP
    if low > high or tried(low).missing:
        return fit, load
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (low, middle - 1) if tried(middle).missing else (middle, high)
    context = low * _CONTEXT_STEP
    values["context"] = context
    changed["context"] = f"tokens a request may hold; {load.context:,} do not fit on {pair.device}"
    return tried(low), replace(load, context=context)


def _loads(
    pair: Pair,
    facts: ModelFacts,
    weights: int | None,
    load: Load,
    values: Mapping[str, Any],
    speculation: Speculation,
    most: int,
) -> list[int]:
    """Powers of two up to what may be held and fits, and the load itself."""

    def fits(requests: int) -> bool:
        if pair.device.kind == "cpu":
            return True
        drafter = draft(speculation, facts) if speculation.method != "off" else NONE
        more = replace(load, requests=requests)
        return not gpu_fit(facts, weights, pair.device, more, drafter, values).missing

    found = {1, min(load.requests, most)}
    found |= {count for exponent in range(11) if (count := 2**exponent) <= most and fits(count)}
    return sorted(found)
