"""The recipe that a tuning leaves: what was best, with its measured capacity curve, τ, machine and date. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import yaml

from outrider.errors import InvalidRecipe
from outrider.recipes.lint import ERROR, RecipeFile, lint
from outrider.recipes.plan import Plan
from outrider.recipes.schema import (
    BreakEven,
    CapacityPoint,
    DrafterOption,
    Envelope,
    Provenance,
    ReasonedFlag,
    Recipe,
    Speculation,
    Training,
    WeightsSource,
)
from outrider.tuning.findings import Point, curve_of, curves
from outrider.tuning.settings import Setting, changed_plan
from outrider.tuning.trial import pooled
from outrider.tuning.tuner import Tuning

_FRESH = timedelta(days=182)
"""After half a year an engine's next version deserves another measurement."""

_MEASURED = "measured by outrider endpoint tune on "
"""Beginning of a drafter's source, by which a later tuning knows what an earlier one left."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a measurement was made with.

    Attributes:
        machine: in words.
        command: what to type to measure again.
        today: the day.
    """

    machine: str
    command: str
    today: date


def winner(tuning: Tuning) -> Plan:
    """The endpoint's plan with the best setting, each changed flag with the measurement as its reason."""
    reason = _reason(tuning)
    made = changed_plan(tuning.job.plan, tuning.best, reason)
    if made.speculation != tuning.present.speculation:
        made = made.model_copy(update={"speculation": made.speculation.model_copy(update={"reason": reason})})
    return made


def recipe_of(tuning: Tuning, how: Circumstances, *, version: int = 1) -> Recipe | None:
    """The recipe; None: the best setting has no curve, since the budget ended before."""
    points = [_point(level, figures) for level, figures in curve_of(tuning, tuning.best)]
    if not points:
        return None
    base, made = tuning.job.recipe, winner(tuning)
    slots = next((flag.value for flag in made.flags if flag.name == "slots"), None)
    most = max(points[-1].concurrency, base.limits.max_concurrency, slots if isinstance(slots, int) else 1)
    return base.model_copy(
        update={
            "id": identifier(tuning),
            "version": version,
            "weights": _weights(made, base),
            "flags": {flag.name: ReasonedFlag(value=flag.value, reason=flag.reason) for flag in made.flags},
            "speculation": _speculation(tuning, made),
            "drafters": _drafters(tuning, how),
            "engine": base.engine.model_copy(update={"environment": made.environment}),
            "workload": _envelope(tuning, points[-1].concurrency),
            "limits": base.limits.model_copy(update={"max_concurrency": most}),
            "capacity_curve": tuple(points),
            "observations": (),
            "provenance": _provenance(tuning, how),
            "stale_after": how.today + _FRESH,
        }
    )


def identifier(tuning: Tuning) -> str:
    """The recipe's id: its base's, and the endpoint's name."""
    base, name = tuning.job.recipe.id, tuning.job.plan.endpoint
    return base if base.endswith(f"-{name}") else f"{base}-{name}"


def written(recipe: Recipe, *, today: date) -> str:
    """The recipe as YAML, read back and linted.

    Raises:
        InvalidRecipe: it has errors; nothing should be written then.
    """
    data = _plain(recipe.model_dump(mode="python", exclude_defaults=True))
    data["capacity_curve"] = [{"concurrency": point["concurrency"], **point} for point in data["capacity_curve"]]
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=118)
    found = lint([RecipeFile("(tuned)", text, -1)], today=today)
    if errors := [finding for finding in found if finding.severity == ERROR]:
        raise InvalidRecipe(
            "What was measured makes no recipe, so none was written",
            why="; ".join(f"{finding.field}: {finding.message}" for finding in errors[:5]),
            remedy="Correct the endpoint's own recipe; the report holds what was measured.",
        )
    return text


def _point(level: int, figures: dict[str, Any]) -> CapacityPoint:
    names = ("ttft_p50", "ttft_p95", "itl_p50", "itl_p95")
    values: dict[str, float] = {name: round(figures[name], 5) for name in names if figures[name]}
    values |= {name: round(figures[name], 1) for name in ("output_tps", "total_tps")}
    if figures["acceptance_length"] is not None:
        values["acceptance_length"] = round(figures["acceptance_length"], 3)
    return CapacityPoint(concurrency=level, **values)


def _weights(made: Plan, base: Recipe) -> tuple[WeightsSource, ...]:
    """What was served: the recipe's own sources, or the endpoint's."""
    known = {source.reference: source for source in base.weights}
    plan = made.weights
    return tuple(
        known.get(reference) or WeightsSource(reference=reference, sha256=plan.sha256, bytes=plan.bytes)
        for reference in plan.sources
    )


def _reason(tuning: Tuning) -> str:
    """Why the best setting is what it is, on one line."""
    verdict = tuning.verdict
    if verdict is None or verdict.verdict.ratio is None:
        return "tuned by measurement; the report says how"
    ratio = verdict.verdict.ratio
    interval = f"{ratio.low:.2f} to {ratio.high:.2f}" if ratio.low and ratio.high else "no interval"
    return (
        f"measured: with {tuning.best.label} a token took {ratio.value:.2f} times what it took before ({interval}),"
        f" at {tuning.traffic.concurrency} in flight"
    )


def _speculation(tuning: Tuning, made: Plan) -> Speculation:
    """The winner's, with the highest concurrency at which it was seen to pay."""
    chosen = made.speculation
    if chosen.method == "off":
        return chosen
    mine = [p for p in curves(tuning) if p.kind is None and p.setting.speculation == tuning.best.speculation]
    paying = [point.concurrency for point in mine if point.pays]
    beyond = [point.concurrency for point in mine if point.pays is False]
    if not paying or not beyond:
        return chosen  # it paid wherever it was measured, or that is not known: nothing bounds it
    return chosen.model_copy(update={"max_useful_concurrency": max(paying)})


def _drafters(tuning: Tuning, how: Circumstances) -> tuple[DrafterOption, ...]:
    """Each way to draft that was measured over concurrency, whether it won or not, and what else the base lists.

    The fastest at the workload's concurrency comes first: who names a drafter gets the first of its entries. What an
    earlier tuning measured of the same ways gives place.
    """
    points = [point for point in curves(tuning) if point.kind is None and point.setting.speculation.method != "off"]
    ways: dict[Setting, list[Point]] = {}
    for point in points:
        ways.setdefault(point.setting, []).append(point)
    base = tuning.job.recipe.drafters
    found = [_drafter(mine, base, how) for mine in sorted(ways.values(), key=lambda mine: mine[-1].itl)]
    known = {_way(option) for option in found}
    kept = [one for one in base if _way(one) not in known or not one.source.startswith(_MEASURED)]
    return (*found, *kept)


def _drafter(mine: Sequence[Point], base: Sequence[DrafterOption], how: Circumstances) -> DrafterOption:
    """A way to draft as it was measured; what its drafter was trained on is as the base has it."""
    chosen = mine[0].setting.speculation
    paying = [point.concurrency for point in mine if point.pays]
    listed = next((one for one in base if (one.method, one.drafter) == (chosen.method, chosen.drafter)), None)
    return DrafterOption(
        method=chosen.method,
        drafter=chosen.drafter,
        quantization=chosen.quantization,
        tokens=chosen.tokens,
        trained_on=listed.trained_on if listed is not None else Training(),
        max_useful_concurrency=max(paying) if paying else None,
        acceptance_length=round(mine[-1].acceptance_length, 3),
        break_even=tuple(
            BreakEven(concurrency=point.concurrency, acceptance_length=round(max(1.0, point.break_even), 3))
            for point in mine
            if point.break_even is not None
        ),
        source=f"{_MEASURED}{how.today.isoformat()}",
        note="" if paying else "it paid at none of the concurrencies measured",
    )


def _way(option: DrafterOption) -> tuple[object, ...]:
    return option.method, option.drafter, option.quantization, option.tokens


def _envelope(tuning: Tuning, concurrency: int) -> Envelope:
    """The traffic it was measured with: mean lengths over every request."""
    samples = [sample for trial in tuning.trials for load in trial.outcome.loads for sample in load.samples]
    figures = pooled([load for trial in tuning.trials for load in trial.outcome.loads])
    if figures is None:
        return Envelope(name=tuning.traffic.name, max_concurrency=concurrency)
    output = sum(sample.tokens for sample in samples) / len(samples)
    # Both rates are over the same seconds, so their quotient is that of the tokens.
    whole = output * figures["total_tps"] / figures["output_tps"] if figures["output_tps"] else output
    return Envelope(
        name=tuning.traffic.name,
        input_tokens=max(1, round(whole - output)),
        output_tokens=round(output),
        max_concurrency=concurrency,
    )


def _provenance(tuning: Tuning, how: Circumstances) -> Provenance:
    trials = sum(trial.counts for trial in tuning.trials)
    left = f"; left undone: {'; '.join(tuning.unfinished)}" if tuning.unfinished else ""
    return Provenance(
        status="measured",
        when=how.today,
        tool="outrider endpoint tune: open loops for the choice, closed loops for the curve",
        command=how.command,
        machine=how.machine,
        note=f"{trials} trials in {tuning.seconds:.0f} s, seed {tuning.job.seed}{left}",
    )


def _plain(value: Any) -> Any:
    """Without tuples, which YAML would mark as Python's."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
