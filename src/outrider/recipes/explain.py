"""A plan as lines for people: a title and, under each choice, its reason and what was rejected. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from outrider.recipes.capacity import seconds
from outrider.recipes.plan import Considered, MemoryPlan, Plan, Prediction
from outrider.recipes.schema import CapacityPoint

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Line:
    """One node of the tree.

    Attributes:
        text: plain, without markup.
        kind: what it is, which decides its colour: ``title``, ``choice``, ``reason``,
            ``rejected``, ``note`` or ``ignored``.
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


def explain(plan: Plan, *, everything: bool = False) -> Line:
    """The decision as a tree; ``everything``: with all that was considered, its memory and its speed."""
    branches = []
    for decision in plan.decisions:
        if decision.choice.startswith("flag "):
            continue  # shown with its flag below
        under = [Line(decision.reason, "reason"), *(Line(f"rejected {text}", "rejected") for text in decision.rejected)]
        under += [Line(note, "note") for note in decision.notes]
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
    if plan.prediction is not None:
        branches.append(_prediction(plan.prediction))
    if plan.expected is not None and (plan.expected.ttft_p95 or plan.expected.itl_p95):
        branches.append(_expected(plan.expected, plan.provenance.machine))
    if everything:
        rows = tuple(_considered(row) for row in plan.considered)
        branches.append(Line(f"considered: {len(rows)}", "choice", rows))
    if plan.obstacles:
        missing = tuple(Line(text, "reason") for text in plan.obstacles)
        branches.append(Line("nothing can start here", "ignored", missing))
    if plan.ignored:
        ignored = tuple(Line(f"{i.field} = {i.value}", "ignored", (Line(i.reason, "reason"),)) for i in plan.ignored)
        branches.append(Line("ignored", "ignored", ignored))
    return Line(f"{plan.endpoint}: {plan.model} ({plan.task})", "title", tuple(branches))


def _provenance(plan: Plan) -> list[Line]:
    who = plan.provenance
    parts = [who.when.isoformat() if who.when else "", f"with {who.tool}" if who.tool else "", who.url, who.note]
    text = "; ".join(part for part in parts if part)
    return [Line(f"{who.status}: {text}", "reason")] if text else []


def _considered(row: Considered) -> Line:
    """One recipe on one kind of hardware."""
    verdict = Line(row.reason, "reason") if row.chosen else Line(f"rejected {row.reason}", "rejected")
    under = [verdict]
    if row.memory is not None:
        under.append(_memory(row.memory))
    if row.prediction is not None:
        under.append(_prediction(row.prediction))
    mark = " (chosen)" if row.chosen else ""
    text = f"{row.recipe} on {row.hardware}: {row.engine}, {row.provenance}{mark}"
    return Line(text, "choice" if row.chosen else "rejected", tuple(under))


def _memory(memory: MemoryPlan) -> Line:
    have = f"{memory.available / _MIB:,.0f} MiB to be had"
    if memory.needed is None:
        return Line(f"memory: cannot be computed, {memory.unknown} is not known; {have}", "reason")
    whose = "" if memory.parts else ", as the recipe states it"
    parts = ", ".join(f"{part.name} {part.bytes / _MIB:,.0f}" for part in memory.parts)
    under = (Line(f"{parts} MiB", "reason"),) if parts else ()
    return Line(f"memory: {memory.needed / _MIB:,.0f} MiB needed{whose}, {have}", "reason", under)


def _prediction(made: Prediction) -> Line:
    """What requests will see, and whose figures these are."""
    figures = [
        f"TTFT {seconds(made.ttft)}" if made.ttft is not None else "",
        f"ITL {seconds(made.itl)}" if made.itl is not None else "",
        f"{made.output_tps:,.0f} output tokens/s" if made.output_tps is not None else "",
        f"${made.usd_per_mtok:.3g} a million of them" if made.usd_per_mtok is not None else "",
    ]
    said = ", ".join(figure for figure in figures if figure)
    text = f"speed: {said} at {made.concurrency} in flight"
    return Line(text, "choice", (Line(f"by {made.source}: {made.basis}", "reason"),))


def _expected(point: CapacityPoint, machine: str) -> Line:
    figures = [
        ("TTFT p50", point.ttft_p50, "s"),
        ("TTFT p95", point.ttft_p95, "s"),
        ("ITL p50", point.itl_p50, "s"),
        ("ITL p95", point.itl_p95, "s"),
        ("output", point.output_tps, "tokens/s"),
        ("total", point.total_tps, "tokens/s"),
    ]
    shown = tuple(Line(f"{name} {value:.4g} {unit}", "reason") for name, value, unit in figures if value is not None)
    where = f"measured on {machine}" if machine else "from the recipe's curve"
    return Line(f"expected: at {point.concurrency} requests in flight, {where}", "choice", shown)
