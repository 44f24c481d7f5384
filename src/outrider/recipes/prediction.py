"""What requests will see: from the recipe's capacity curve where it was made for this hardware, else the roofline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from outrider.recipes import capacity, roofline
from outrider.recipes.acceptance import Acceptance, expected
from outrider.recipes.bound import break_even
from outrider.recipes.candidate import Pair
from outrider.recipes.device import Device
from outrider.recipes.drafting import draft
from outrider.recipes.plan import Prediction
from outrider.recipes.schema import CapacityPoint, Envelope, Recipe, Speculation
from outrider.spec.workload import Workload

_LONGER = 2
"""Times a curve's prompts beyond which it says less of a workload than the roofline does: reading a prompt takes as
much longer as it is longer, and the roofline's own error is smaller than that (docs/performance.md)."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Loads of one replica and what requests see at each.

    Attributes:
        points: by rising concurrency; empty: nothing can be said.
        basis: whose measurement, or what was assumed; where there are no points, what is missing.
        known: how its loads came to be, one word: measured, published or predicted.
        acceptance: what it counts on of a drafter; None: nothing drafts, or it was measured with the drafter at work.
    """

    points: tuple[CapacityPoint, ...]
    source: Literal["curve", "roofline"]
    basis: str
    known: Literal["measured", "published", "predicted"] = "predicted"
    acceptance: Acceptance | None = None


def curve_of(
    pair: Pair,
    model: roofline.Model,
    weights: int | None,
    speculation: Speculation,
    workload: Workload,
    loads: Sequence[int],
) -> Curve:
    """The curve to plan with.

    Args:
        weights: bytes; None: not known.
        loads: requests in flight that the roofline is asked for.
    """
    recipe, device = pair.recipe, pair.device
    missing = roofline.unknown(model.facts, weights, device)
    own = pair.drafts_as_offered(speculation)
    counted = expected(recipe, speculation, workload, own=own)

    def computed(load: int, traffic: Workload = workload) -> CapacityPoint:
        measured = break_even(recipe, speculation.method, load, speculation.tokens) if pair.tested else None
        return _point(device, model, speculation, traffic, load, counted.length, measured)

    measured = pair.tested and bool(recipe.capacity_curve) and own
    longer = measured and _longer(recipe.workload, workload)
    if measured and (missing or not longer):
        of = _traffic(recipe.workload, workload)
        curve = _recorded(recipe, device, None if missing else lambda load: computed(load, of))
        return replace(curve, basis=curve.basis + _without(recipe, model.values))
    if missing:
        return Curve((), "roofline", f"cannot be predicted; not known: {missing}")
    basis, drafts = _basis(device, speculation, counted), speculation.method != "off"
    if pair.tested and break_even(recipe, speculation.method, 1, speculation.tokens) is not None:
        basis += "; what drafting costs a step as it was measured"
    if longer:
        basis += f"; the recipe's curve is of prompts of {recipe.workload.input_tokens:,} tokens, too short to go by"
    return Curve(tuple(map(computed, loads)), "roofline", basis, acceptance=counted if drafts else None)


def _longer(measured: Envelope, workload: Workload) -> bool:
    """Whether the workload's prompts, where somebody said them, are too long to go by a curve of shorter ones."""
    said = workload.input_tokens != Workload.model_fields["input_tokens"].default
    return said and workload.input_tokens > _LONGER * (measured.input_tokens or workload.input_tokens)


def _without(recipe: Recipe, values: Mapping[str, Any]) -> str:
    """The flags in effect that the curve was not measured with; a context bounds requests and changes no speed."""
    own = {name: flag.value for name, flag in recipe.flags.items()}
    names = [name for name, value in values.items() if name != "context" and own.get(name) != value]
    return f"; measured without {', '.join(f'{name}={values[name]}' for name in names)}" if names else ""


def _traffic(measured: Envelope, workload: Workload) -> Workload:
    """What a curve was measured with, as far as its recipe says it."""
    lengths = {"input_tokens": measured.input_tokens, "output_tokens": measured.output_tokens}
    known = {name: value for name, value in lengths.items() if value is not None}
    if measured.prefix_hit_rate is not None and measured.input_tokens is not None:
        known["shared_prefix_tokens"] = round(measured.prefix_hit_rate * measured.input_tokens)
    return workload.model_copy(update=known)


def predicted(curve: Curve, concurrency: int, device: Device) -> Prediction | None:
    """The curve at a load, with what it costs; None: the curve has no points."""
    if not curve.points:
        return None
    point = capacity.at(curve.points, concurrency)
    output = point.output_tps
    cost = None if device.usd_per_hour is None or output is None else device.usd_per_hour / (output * 3600) * 1e6
    return Prediction(
        concurrency=point.concurrency,
        ttft=point.ttft,
        itl=point.itl,
        output_tps=output,
        acceptance_length=point.acceptance_length,
        usd_per_mtok=cost,
        source=curve.source,
        basis=curve.basis,
    )


def _recorded(recipe: Recipe, device: Device, computed: Callable[[int], CapacityPoint] | None) -> Curve:
    """The recipe's own curve; what a point lacks follows from its totals, or is computed where that can be."""
    who, traffic = recipe.provenance, recipe.workload
    basis, share = f"{who.status} on {who.machine or who.url or device}", None
    if traffic.input_tokens and traffic.output_tokens:
        basis += f", {traffic.input_tokens:,} tokens in and {traffic.output_tokens:,} out"
        share = traffic.output_tokens / (traffic.input_tokens + traffic.output_tokens)
    points, filled = [], False
    for point in recipe.capacity_curve:
        values: dict[str, float] = {}
        if point.output_tps is None and point.total_tps is not None and share is not None:
            values["output_tps"] = point.total_tps * share
        lacking = {
            "ttft_mean": point.ttft,
            "itl_mean": point.itl,
            "output_tps": values.get("output_tps", point.output_tps),
        }
        if computed is not None and None in lacking.values():
            other = computed(point.concurrency)
            filled = True
            figures = {"ttft_mean": other.ttft, "itl_mean": other.itl, "output_tps": other.output_tps}
            values |= {name: figures[name] or 0 for name, value in lacking.items() if value is None}
        points.append(point.model_copy(update=values))
    basis += "; what it lacks is the roofline's" if filled else ""
    return Curve(tuple(points), "curve", basis, "published" if who.status == "published" else "measured")


def _point(
    device: Device,
    model: roofline.Model,
    speculation: Speculation,
    workload: Workload,
    load: int,
    tau: float,
    slower: float | None,
) -> CapacityPoint:
    found = roofline.speed(
        model,
        device,
        draft(speculation, model.facts),
        requests=load,
        input_tokens=workload.input_tokens,
        shared_tokens=workload.shared_prefix_tokens,
        output_tokens=workload.output_tokens,
        acceptance=tau,
        slower=slower,
    )
    return CapacityPoint(
        concurrency=load,
        ttft_p50=found.ttft,
        itl_p50=found.itl,
        output_tps=found.output_tps,
        acceptance_length=None if speculation.method == "off" else tau,
    )


def _basis(device: Device, speculation: Speculation, counted: Acceptance) -> str:
    text = "bytes and operations over the hardware's, typical and not p95"
    if device.doubt:
        text += f"; {device.doubt}"
    if speculation.method == "off":
        return text
    return f"{text}; {speculation.method} with an acceptance length of {counted.length:.3g}, {counted.source}"
