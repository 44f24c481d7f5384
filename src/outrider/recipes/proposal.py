"""What a spec would change about an endpoint: its fields, the plan they lead to, and its ``serve.py``. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from outrider.recipes.plan import Plan
from outrider.spec.base import SpecModel
from outrider.spec.changes import Change, changes
from outrider.spec.endpoint import Endpoint

_CONTEXT = 3
"""Lines shown around a change, as diff does."""


@dataclass(frozen=True, slots=True)
class Standing:
    """An endpoint as it is.

    Attributes:
        spec, plan: as stored; None: its ``serve.py`` was deployed, not planned.
        source: of the wanted revision, whose number ``revision`` is.
        current: the wanted revision is what the spec now leads to, and has not failed.
        edited: the wanted revision was edited by hand.
    """

    spec: Mapping[str, Any] | None
    plan: Mapping[str, Any] | None
    source: str
    revision: int | None
    generation: int
    current: bool
    edited: bool


class Proposal(SpecModel):
    """What applying a spec would do. Nothing is changed by making one."""

    name: str
    """The endpoint's."""
    action: Literal["created", "changed", "unchanged"]
    """What would become of it. unchanged: no new revision and no new generation."""
    changes: tuple[Change, ...]
    """Fields of the spec; of a new endpoint those that differ from the defaults."""
    plan_changes: tuple[Change, ...]
    """What that leads to: recipe, engine, flags, weights, the replica's resources; of a new endpoint, no defaults."""
    source_diff: str
    """Unified diff of ``serve.py``; empty where it stays."""
    source_edited: bool = False
    """It runs a file edited by hand, which only an explicit replacement overwrites."""
    revision: int | None = None
    """The revision that stands now; None: there is none."""
    generation: int | None = None
    """The endpoint's, for ``If-Match``; None: there is no endpoint of this name."""
    plan: Plan
    """What would run, with every reason."""


def propose(spec: Endpoint, plan: Plan, source: str, standing: Standing | None) -> Proposal:
    """Compare what a spec leads to with what stands; None: no endpoint of this name."""
    before = standing.spec if standing else None
    after = spec.model_dump(mode="json", exclude_defaults=before is None)
    changed = changes(before or {}, after)
    stood = standing.plan if standing else None
    led_to = changes(outcome(stood or {}), outcome(plan.model_dump(mode="json", exclude_defaults=stood is None)))
    same = standing is not None and standing.current and not changed
    return Proposal(
        name=spec.label,
        action="created" if standing is None else "unchanged" if same else "changed",
        changes=changed,
        plan_changes=led_to,
        source_diff=_diff(spec.label, standing, source),
        source_edited=standing is not None and standing.edited,
        revision=standing.revision if standing else None,
        generation=standing.generation if standing else None,
        plan=plan,
    )


def outcome(plan: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a plan that decides what runs, without reasons and warm-up requests; fields may be left out."""
    parts = {field: plan.get(field) for field in ("recipe", "recipe_version", "engine", "engine_version")}
    flags = {flag["name"]: flag["value"] for flag in plan.get("flags", ())}
    drafter = (plan.get("speculation") or {}).get("method")
    adapters = {one["name"]: {"source": one["source"], "sha256": one["sha256"]} for one in plan.get("adapters", ())}
    rest = {field: plan.get(field) for field in ("environment", "weights", "server")}
    if rest["weights"]:
        # What they are held against is checked, not run; the source's diff shows it.
        rest["weights"] = {field: value for field, value in rest["weights"].items() if field != "base"}
    return {**parts, "drafter": drafter, "adapters": adapters, "flags": flags, **rest}


def _diff(name: str, standing: Standing | None, source: str) -> str:
    old = standing.source if standing else ""
    was = f"{name}/{standing.revision}/serve.py" if standing else "/dev/null"
    lines = difflib.unified_diff(
        old.splitlines(), source.splitlines(), was, f"{name}/new/serve.py", lineterm="", n=_CONTEXT
    )
    return "".join(f"{line}\n" for line in lines)
