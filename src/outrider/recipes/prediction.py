"""What requests will see: from the recipe's capacity curve where it was made for this hardware, else the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from outrider.recipes import capacity, roofline
from outrider.recipes.candidate import Pair
from outrider.recipes.device import Device
from outrider.recipes.drafting import acceptance, draft
from outrider.recipes.plan import Prediction
from outrider.recipes.schema import CapacityPoint, Speculation
from outrider.spec.workload import Workload


@dataclass(frozen=True, slots=True)
class Curve:
    """Loads of one replica and what requests see at each.

    Attributes:
        points: by rising concurrency; empty: nothing can be said.
        basis: whose measurement, or what was assumed; where there are no points, what is missing.
    """

    points: tuple[CapacityPoint, ...]
    source: Literal["curve", "roofline"]
    basis: str

    @property
    def known(self) -> str:
        """How its loads came to be, one word."""
        return "measured" if self.source == "curve" else "predicted"


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
    recipe = pair.recipe
    if pair.tested and recipe.capacity_curve and speculation == recipe.speculation:
        who = recipe.provenance
        return Curve(recipe.capacity_curve, "curve", f"{who.status} on {who.machine or who.url or pair.device}")
    if missing := roofline.unknown(model.facts, weights, pair.device):
        return Curve((), "roofline", f"cannot be predicted: {missing} not known")
    known = next((p.acceptance_length for p in recipe.capacity_curve if p.acceptance_length), None)
    tau = acceptance(speculation, known)
    points = tuple(_point(pair.device, model, speculation, workload, load, tau) for load in loads)
    return Curve(points, "roofline", _basis(speculation, known, tau))


def predicted(curve: Curve, concurrency: int, device: Device) -> Prediction | None:
    """The curve at a load, with what it costs; None: the curve has no points."""
    if not curve.points:
        return None
    point = capacity.at(curve.points, concurrency)
    cost = None
    if device.usd_per_hour is not None and point.output_tps is not None:
        cost = device.usd_per_hour / (point.output_tps * 3600) * 1e6
    return Prediction(
        concurrency=point.concurrency,
        ttft=point.ttft_p50,
        itl=point.itl_p50,
        output_tps=point.output_tps,
        acceptance_length=point.acceptance_length,
        usd_per_mtok=cost,
        source=curve.source,
        basis=curve.basis,
    )


def _point(
    device: Device, model: roofline.Model, speculation: Speculation, workload: Workload, load: int, tau: float
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
    )
    # A roofline knows no percentiles: what is typical stands for all of them, and the basis says so.
    return CapacityPoint(
        concurrency=load,
        ttft_p50=found.ttft,
        ttft_p95=found.ttft,
        itl_p50=found.itl,
        itl_p95=found.itl,
        output_tps=found.output_tps,
        acceptance_length=None if speculation.method == "off" else tau,
    )


def _basis(speculation: Speculation, known: float | None, tau: float) -> str:
    text = "bytes and operations over the hardware's, typical and not p95"
    if speculation.method == "off":
        return text
    whose = "as measured elsewhere" if known else "assumed"
    return f"{text}; {speculation.method} with an acceptance length of {tau:.3g}, {whose}"
