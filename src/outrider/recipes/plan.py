"""A plan: what will run for an endpoint, every choice with its reason. JSON both ways."""

from __future__ import annotations

from typing import Any, Literal

from outrider.recipes.flags import FlagValue
from outrider.recipes.schema import CapacityPoint, EngineEnvironment, Provenance, Sha256, Speculation
from outrider.spec.base import SpecModel


class Flag(SpecModel):
    """One engine flag of the plan."""

    name: str
    value: FlagValue
    reason: str


class Decision(SpecModel):
    """One choice: what, which, why, and what was rejected for which reason."""

    choice: str
    value: str
    reason: str
    rejected: tuple[str, ...] = ()


class Ignored(SpecModel):
    """Something the spec says that this placement or version cannot honour."""

    field: str
    """Dotted path in the spec."""
    value: str
    reason: str


class WeightsPlan(SpecModel):
    """Sources of one file, in order, and the SHA-256 that it must have; None: not pinned."""

    sources: tuple[str, ...]
    sha256: Sha256 | None
    bytes: int | None


class ServerPlan(SpecModel):
    """The arguments of ``@app.server``; None or a default is not written into ``serve.py``. Units as there."""

    gpu: str | None = None
    cpu: float | None = None
    memory: int | None = None
    port: int | None = None
    routing_region: str | None = None
    compute_region: str | None = None
    target_concurrency: float | None = None
    max_concurrency: int | None = None
    min_replicas: int = 1
    max_replicas: int | None = None
    buffer_replicas: int = 0
    scaleup_window: float = 30.0
    scaledown_window: float = 300.0
    startup_timeout: float = 600.0
    exit_grace_period: float = 30.0
    unauthenticated: bool = False


class Plan(SpecModel):
    """The recipe chosen for this endpoint on this inventory, with every reason."""

    endpoint: str
    """The endpoint's name."""
    model: str
    task: Literal["generate", "embed"]
    recipe: str
    recipe_version: int
    provenance: Provenance
    """The recipe's: who says that this works, and how it was found."""
    engine: Literal["sglang", "vllm", "llamacpp"]
    engine_version: str
    """The version that the recipe was made with."""
    flags: tuple[Flag, ...]
    environment: EngineEnvironment
    weights: WeightsPlan
    server: ServerPlan
    warm_up: tuple[dict[str, Any], ...]
    """Requests that must have worked once before users' requests come."""
    speculation: Speculation
    """Which drafter, and why."""
    prefill_rate: float | None = None
    """Prompt tokens a second that a replica reads: what routing weighs a cached prefix with. None: not measured."""
    expected: CapacityPoint | None = None
    """The measured point nearest below the planned concurrency. None: nothing is known of its speed."""
    decisions: tuple[Decision, ...]
    ignored: tuple[Ignored, ...] = ()
