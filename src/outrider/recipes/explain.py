"""A plan as lines for people: a title and, under each choice, its reason and what was rejected. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from outrider.recipes.plan import Plan
from outrider.recipes.schema import CapacityPoint


@dataclass(frozen=True, slots=True)
class Line:
    """One node of the tree.

    Attributes:
        text: plain, without markup.
        kind: what it is, which decides its colour: ``title``, ``choice``, ``reason``, ``rejected`` or ``ignored``.
        under: what hangs under it.
    """

    text: str
    kind: str
    under: tuple[Line, ...] = ()

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Line]]:
        """This line and all under it, each with its depth, in reading order."""
        yield depth, self
        for line in self.under:
            yield from line.walk(depth + 1)


def explain(plan: Plan) -> Line:
    """The whole decision as a tree."""
    branches = []
    for decision in plan.decisions:
        if decision.choice.startswith("flag "):
            continue  # shown with its flag below
        under = [Line(decision.reason, "reason"), *(Line(f"rejected {text}", "rejected") for text in decision.rejected)]
        if decision.choice == "recipe":
            under += _provenance(plan)
        branches.append(Line(f"{decision.choice}: {decision.value}", "choice", tuple(under)))
    overridden = {d.choice.removeprefix("flag "): d.rejected for d in plan.decisions if d.choice.startswith("flag ")}
    flags = tuple(
        Line(
            f"{flag.name} = {flag.value}",
            "choice",
            (Line(flag.reason, "reason"), *(Line(f"rejected {t}", "rejected") for t in overridden.get(flag.name, ()))),
        )
        for flag in plan.flags
    )
    branches.append(Line(f"flags: {len(flags)}", "choice", flags))
    if plan.expected is not None:
        branches.append(_expected(plan.expected, plan.provenance.machine))
    if plan.ignored:
        ignored = tuple(Line(f"{i.field} = {i.value}", "ignored", (Line(i.reason, "reason"),)) for i in plan.ignored)
        branches.append(Line("ignored", "ignored", ignored))
    return Line(f"{plan.endpoint}: {plan.model} ({plan.task})", "title", tuple(branches))


def _provenance(plan: Plan) -> list[Line]:
    who = plan.provenance
    parts = [who.when.isoformat() if who.when else "", f"with {who.tool}" if who.tool else "", who.url, who.note]
    text = "; ".join(part for part in parts if part)
    return [Line(f"{who.status}: {text}", "reason")] if text else []


def _expected(point: CapacityPoint, machine: str) -> Line:
    figures = [
        ("TTFT p50", point.ttft_p50, "s"),
        ("TTFT p95", point.ttft_p95, "s"),
        ("ITL p50", point.itl_p50, "s"),
        ("ITL p95", point.itl_p95, "s"),
        ("output", point.output_tps, "tokens/s"),
        ("total", point.total_tps, "tokens/s"),
    ]
    shown = tuple(Line(f"{name} {value:.3g} {unit}", "reason") for name, value, unit in figures if value is not None)
    where = f"measured on {machine}" if machine else "from the recipe's curve"
    return Line(f"expected: at {point.concurrency} requests in flight, {where}", "choice", shown)
