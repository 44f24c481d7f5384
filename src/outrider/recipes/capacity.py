"""How many requests a replica should hold: read from a capacity curve, against the objective."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from outrider.recipes.schema import CapacityPoint, Recipe
from outrider.spec.objective import Objective

_PATIENCE = 10.0
"""Seconds to a first word after which people turn away, where the objective says nothing: Nielsen's limit for keeping
somebody's attention (*Usability Engineering*, 1993)."""
_READING = 0.1
"""Seconds a token at which an answer comes somewhat faster than it is read: 240 words a minute (Brysbaert 2019) are
some 5 tokens a second."""


@dataclass(frozen=True, slots=True)
class Target:
    """Requests in flight to aim at, the point that stands for it, and why.

    Attributes:
        met: the objective is.
        pleasant: a person would bear it; asked only where the objective bounds nothing.
    """

    concurrency: int
    point: CapacityPoint | None
    reason: str
    met: bool = True
    pleasant: bool = True


def target(
    curve: Sequence[CapacityPoint],
    objective: Objective,
    *,
    most: int,
    output_tokens: int,
    workload: float | None,
    known: str = "measured",
    patient: bool = False,
) -> Target | None:
    """The largest concurrency of a curve, up to ``most``, that meets the objective; None without a curve.

    A bound for the 95th percentile or above is compared with p95, any other with p50: what a curve holds. ``met`` is
    False where not even the lightest load meets it; the target is then that load.

    Args:
        most: requests a replica may hold.
        workload: requests in flight that the user expects, over all replicas.
        known: how the curve came to be, one word for the reason.
        patient: nobody waits for the answers, so that without an objective throughput alone counts.
    """
    points = [point for point in curve if point.concurrency <= most] or list(curve[:1])
    if not points:
        return None
    meeting = [point for point in points if not violations(point, objective, output_tokens)]
    if not bounded(objective):
        best, whose = _unbounded(points, known, patient=patient)
        reason = f"{whose}, {_figures(best)}"
    elif meeting:
        best = meeting[-1]
        reason = f"the largest {known} load that meets the objective, {_figures(best)}"
    else:
        best = points[0]
        lacking = "; ".join(violations(best, objective, output_tokens))
        return Target(best.concurrency, best, f"not even the lightest load meets the objective: {lacking}", met=False)
    if workload is not None and workload > best.concurrency:
        reason += f"; your workload of {workload:g} needs {replicas(workload, best.concurrency)} replicas"
    return Target(best.concurrency, best, reason, pleasant=patient or bounded(objective) or _pleasant(best))


def _unbounded(points: Sequence[CapacityPoint], known: str, *, patient: bool) -> tuple[CapacityPoint, str]:
    """The load to aim at where no objective says one, and in words which it is."""
    if patient:
        return max(points, key=lambda point: point.output_tps or 0), f"the load {known} with the highest throughput"
    pleasant = [point for point in points if _pleasant(point)]
    if not pleasant:
        return points[0], f"the lightest load {known}, although a person would give up at it"
    whole = pleasant[-1] is points[-1]
    return pleasant[-1], f"the largest load {known}{'' if whole else ' at which a person would not give up'}"


@dataclass(frozen=True, slots=True)
class Flow:
    """What arrivals come to on one replica.

    Attributes:
        requests: in flight.
        kept_up: whether the replica finishes them as they come; False: it takes ``most`` of them a second.
        most: requests a second at the load of the curve that finishes most.
    """

    requests: int
    kept_up: bool
    most: float


def in_flight(curve: Sequence[CapacityPoint], rate: float, output_tokens: int) -> Flow | None:
    """Requests in flight where ``rate`` of them arrive a second, by Little's law: the lightest load that finishes as
    many, or the load that finishes most. None: the curve does not say how long requests take."""
    rates = [(point.concurrency, finished_by(point, output_tokens)) for point in curve]
    finished = [(load, done) for load, done in rates if done is not None]
    if not finished:
        return None
    busiest, most = max(finished, key=lambda pair: pair[1])
    lower = (0, 0.0)
    for load, done in finished:
        if done >= rate:
            share = (rate - lower[1]) / (done - lower[1])
            return Flow(max(1, math.ceil(lower[0] + share * (load - lower[0]))), kept_up=True, most=most)
        lower = (load, done)
    return Flow(busiest, kept_up=False, most=most)


def finished_by(point: CapacityPoint, output_tokens: int) -> float | None:
    """Requests a second that a load finishes, by Little's law. None: it does not say how long they take."""
    if point.ttft is None or point.itl is None:
        return None
    return point.concurrency / (point.ttft + point.itl * (output_tokens - 1))


def _pleasant(point: CapacityPoint) -> bool:
    """Whether a person would bear it; asked where the objective bounds nothing."""
    return (point.ttft or 0) <= _PATIENCE and (point.itl or 0) <= _READING


def replicas(workload: float, concurrency: int) -> int:
    """Replicas that hold ``workload`` requests in flight, ``concurrency`` each."""
    return math.ceil(workload / concurrency)


def at(curve: Sequence[CapacityPoint], concurrency: int) -> CapacityPoint:
    """The curve at a load, linear between two points; beyond either end the point at that end, at its own load.

    Raises:
        ValueError: the curve has no point.
    """
    if not curve:
        raise ValueError("no point to interpolate")
    if concurrency <= curve[0].concurrency:
        return curve[0]
    if exact := [point for point in curve if point.concurrency == concurrency]:
        return exact[0]
    for low, high in itertools.pairwise(curve):
        if concurrency <= high.concurrency:
            share = (concurrency - low.concurrency) / (high.concurrency - low.concurrency)
            return _between(low, high, share, concurrency)
    return curve[-1]


def _between(low: CapacityPoint, high: CapacityPoint, share: float, concurrency: int) -> CapacityPoint:
    values: dict[str, float] = {}
    ends = high.model_dump()
    for name, start in low.model_dump().items():
        if name != "concurrency" and start is not None and ends[name] is not None:
            values[name] = start + share * (ends[name] - start)
    for name, start, end in (("ttft", low.ttft, high.ttft), ("itl", low.itl, high.itl)):
        if f"{name}_p50" not in values and start is not None and end is not None:
            values[f"{name}_mean"] = start + share * (end - start)
    return CapacityPoint(concurrency=concurrency, **values)


def prefill_rate(recipe: Recipe) -> float | None:
    """Prompt tokens a second that one replica reads, from the lightest load measured; None where none was.

    Waiting is part of a TTFT, so that a load beyond one request at a time gives less than the truth, never more.
    """
    point = next(iter(recipe.capacity_curve), None)
    if point is None or point.ttft_p50 is None or recipe.workload.input_tokens is None:
        return None
    return round(recipe.workload.input_tokens / point.ttft_p50, 1)


def bounded(objective: Objective) -> bool:
    """Whether the objective bounds any latency."""
    return any(bound is not None for bound in (objective.ttft, objective.itl, objective.e2e))


def violations(point: CapacityPoint, objective: Objective, output_tokens: int) -> list[str]:
    """Which bounds a load breaks: by its p95 for a bound of the 95th percentile or above where that is known, else by
    what is typical. A value nobody knows breaks none."""
    high = objective.percentile >= 95
    ttft, itl = point.ttft, point.itl
    known = "typically" if point.ttft_p50 is None and point.itl_p50 is None else "p50"
    if high and (point.ttft_p95 or point.itl_p95):
        ttft, itl, known = point.ttft_p95 or ttft, point.itl_p95 or itl, "p95"
    e2e = None if ttft is None or itl is None else ttft + itl * (output_tokens - 1)
    measured = (("ttft", ttft, objective.ttft), ("itl", itl, objective.itl), ("e2e", e2e, objective.e2e))
    return [
        f"{name} {known} is {seconds(value)}, {seconds(bound)} wanted"
        for name, value, bound in measured
        if value is not None and bound is not None and value > bound
    ]


def _figures(point: CapacityPoint) -> str:
    parts = []
    for name, high, typical in (("TTFT", point.ttft_p95, point.ttft), ("ITL", point.itl_p95, point.itl)):
        if high is not None:
            parts.append(f"{name} p95 {seconds(high)}")
        elif typical is not None:
            parts.append(f"{name} {seconds(typical)}")
    if point.output_tps is not None:
        parts.append(f"{point.output_tps:,.0f} output tokens/s")
    return ", ".join(parts) or f"concurrency {point.concurrency}"


def seconds(value: float) -> str:
    """A duration for people, three digits: ``1.57 s``, ``12.3 ms``; of more than 1,000 s all whole ones."""
    if value >= 1000:
        return f"{value:,.0f} s"
    return f"{value:.3g} s" if value >= 0.1 else f"{value * 1000:.3g} ms"
