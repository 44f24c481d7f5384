"""From measurements to what is said about them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from outrider.loadgen.load import Load, Round
from outrider.loadgen.measurement import Measurement
from outrider.loadgen.statistics import Estimate, estimate, mean, quantile, ratio

DURATIONS = ("ttft", "itl", "e2e", "event_gap")
"""Measured per request, in seconds."""

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

_WINDOWS = 10
"""Equal pieces that a round is cut into, so that a rate has a spread."""


def summary(load: Load, rounds: Sequence[Round], *, label: str) -> dict[str, Any]:
    """One target under one load: quantiles with intervals, rates, errors. JSON-serialisable.

    Rates are over the time that requests were in flight. ``output_tps`` counts generated tokens only; ``total_tps``
    prompts too (as the server counted them, cached ones included).
    """
    requests = [request for one in rounds for request in one.measurements]
    good = [request for request in requests if request.ok]
    seconds = sum(one.seconds for one in rounds)
    output = sum(request.completion_tokens for request in good)
    prompt = sum(request.prompt_tokens or 0 for request in good)
    rates = [rate for one in rounds for rate in _rates(one)]
    return {
        "target": label,
        "load": load.label,
        "concurrency": load.concurrency,
        "rate": load.rate,
        "requests": len(requests),
        "seconds": round(seconds, 4),
        **{name: _quantiles(good, name) for name in DURATIONS},
        "output_tps": _told(_around(output / seconds if seconds else 0.0, rates)),
        "total_tps": _told(Estimate((output + prompt) / seconds if seconds else 0.0, None, None)),
        "requests_per_second": round(len(good) / seconds, 4) if seconds else 0.0,
        "input_tokens_mean": _mean([request.prompt_tokens for request in good]),
        "cached_tokens_mean": _mean([request.cached_tokens for request in good]),
        "output_tokens_mean": _mean([request.completion_tokens for request in good]),
        "tokens_counted_by": "server" if all(request.counted for request in good) else "events",
        "errors": len(requests) - len(good),
        "error_kinds": dict(Counter(str(request.error) for request in requests if not request.ok).most_common(10)),
        "client_lag_p99": _lag(requests),
    }


def ratios(load: Load, rounds: Sequence[Round], *, labels: Sequence[str], seed: int) -> dict[str, Any]:
    """The first target over the second: medians of each duration, and output tokens/s. Below 1: less than the other.

    Named as what is divided by what, ``ttft_p50_A_over_B``; each with its bootstrap interval.
    """
    rng = random.Random(seed)
    ours, theirs = ([one for one in rounds if one.target == target] for target in (0, 1))
    tail = f"{labels[0]}_over_{labels[1]}"
    found: dict[str, Any] = {}
    for name in DURATIONS:
        for short in ("p50", "p95"):
            q = QUANTILES[short]
            value = ratio(_values(ours, name), _values(theirs, name), lambda v, q=q: quantile(sorted(v), q), rng)  # type: ignore[misc]
            if value is not None:
                found[f"{name}_{short}_{tail}"] = _told(value)
    rates = [[rate for one in side for rate in _rates(one)] for side in (ours, theirs)]
    value = ratio(rates[0], rates[1], lambda v: sum(v) / len(v), rng)
    if value is not None:
        found[f"output_tps_{tail}"] = _told(value)
    return found


def curve_point(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a closed loop as a recipe's ``capacity_curve`` holds it."""
    point: dict[str, Any] = {"concurrency": row["concurrency"]}
    for name in ("ttft", "itl"):
        for short in ("p50", "p95"):
            if row[name] is not None:
                point[f"{name}_{short}"] = round(row[name][short]["value"], 4)
    return point | {name: round(row[name]["value"], 1) for name in ("output_tps", "total_tps")}


def _quantiles(requests: Sequence[Measurement], name: str) -> dict[str, Any] | None:
    values = [value for request in requests if (value := getattr(request, name)) is not None]
    if not values:
        return None
    found = {short: estimate(values, q) for short, q in QUANTILES.items()}
    return {short: _told(value) for short, value in found.items() if value is not None}


def _values(rounds: Sequence[Round], name: str) -> list[float]:
    found = (getattr(request, name) for one in rounds for request in one.measurements)
    return [value for value in found if value is not None]


def _rates(one: Round) -> list[float]:
    """Output tokens a second in each window of a round, each answer's tokens spread evenly over its stream."""
    if one.seconds <= 0:
        return []
    width = one.seconds / _WINDOWS
    tokens = [0.0] * _WINDOWS
    for request in one.measurements:
        if not request.ok or request.first is None or request.last is None:
            continue
        first, last = request.first, max(request.last, request.first + 1e-6)
        for window in range(_WINDOWS):
            overlap = min(last, (window + 1) * width) - max(first, window * width)
            tokens[window] += request.completion_tokens * max(0.0, overlap) / (last - first)
    return [count / width for count in tokens]


def _around(value: float, rates: Sequence[float]) -> Estimate:
    spread = mean(rates)
    if spread is None or spread.low is None or spread.high is None:
        return Estimate(value, None, None)
    half = (spread.high - spread.low) / 2
    return Estimate(value, max(0.0, value - half), value + half)


def _told(value: Estimate) -> dict[str, float | None]:
    return {name: None if number is None else round(number, 6) for name, number in value._asdict().items()}


def _mean(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 1) if known else None


def _lag(requests: Sequence[Measurement]) -> float:
    lags = sorted(request.sent - request.scheduled for request in requests)
    return round(quantile(lags, 0.99), 6) if lags else 0.0
