"""A plan as lines for people: a title and, under each choice, its reason and what was rejected. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.recipes.plan import Plan


@dataclass(frozen=True, slots=True)
class Line:
    """One node of the tree: ``text``, a ``kind`` that decides its colour, and what hangs under it."""

    text: str
    kind: str
    under: tuple[Line, ...] = ()


def explain(plan: Plan) -> Line:
    """The whole decision as a tree."""
    branches = [
        Line(f"{decision.choice}: {decision.value}", "choice", _reasons(decision.reason, decision.rejected))
        for decision in plan.decisions
    ]
    flags = tuple(Line(f"{flag.name} = {flag.value}", "choice", (Line(flag.reason, "reason"),)) for flag in plan.flags)
    branches.append(Line(f"engine: {plan.engine} {plan.engine_version}", "choice", flags))
    if plan.ignored:
        ignored = tuple(Line(f"{i.field} = {i.value}", "ignored", (Line(i.reason, "reason"),)) for i in plan.ignored)
        branches.append(Line("ignored", "ignored", ignored))
    return Line(f"{plan.endpoint}: {plan.model} ({plan.task})", "title", tuple(branches))


def _reasons(reason: str, rejected: tuple[str, ...]) -> tuple[Line, ...]:
    return (Line(reason, "reason"), *(Line(f"rejected {text}", "rejected") for text in rejected))
