"""A plan: what will run for an endpoint, every choice with its reason. JSON both ways."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from outrider.recipes.schema import FlagValue, Provenance, Speculation
from outrider.spec.base import SpecModel


class Flag(SpecModel):
    """One engine flag of the plan."""

    name: str
    value: FlagValue | None
    reason: str


class Decision(SpecModel):
    """One choice: what, which, why, and what was rejected for which reason."""

    choice: str
    value: str
    reason: str
    rejected: tuple[str, ...] = ()


class Ignored(SpecModel):
    """Something the spec says and this placement cannot honour."""

    field: str
    value: str
    reason: str


class WeightsPlan(SpecModel):
    """Sources of one file, in order, and the SHA-256 that it must have; None: not pinned."""

    sources: tuple[str, ...]
    sha256: str | None
    bytes: int | None


class EnvironmentPlan(SpecModel):
    """The engine's Python; empty packages: Outrider's own."""

    python: str | None = None
    packages: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)


class Plan(SpecModel):
    """The recipe chosen for this endpoint on this inventory, with every reason."""

    endpoint: str
    model: str
    task: Literal["generate", "embed"]
    recipe: str
    recipe_version: int
    provenance: Provenance
    engine: Literal["sglang", "vllm", "llamacpp"]
    engine_version: str
    flags: tuple[Flag, ...]
    environment: EnvironmentPlan
    weights: WeightsPlan
    server: dict[str, Any]
    speculation: Speculation
    decisions: tuple[Decision, ...]
    ignored: tuple[Ignored, ...] = ()
