"""A plan: what will run for an endpoint, every choice with its reason. JSON both ways."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from outrider.recipes.flags import FlagValue
from outrider.recipes.schema import CapacityPoint, EngineEnvironment, Provenance, Sha256, Speculation
from outrider.spec.base import SpecModel
from outrider.spec.facts import ModelFacts


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
    notes: tuple[str, ...] = ()
    """What else the owner should know of it, a line each: differences, warnings."""


class Ignored(SpecModel):
    """Something the spec says that this placement or version cannot honour."""

    field: str
    """Dotted path in the spec."""
    value: str
    reason: str


class Part(SpecModel):
    """Bytes and what they are for."""

    name: str
    bytes: int


class MemoryPlan(SpecModel):
    """What each GPU, or the host, has to hold, and what it has."""

    parts: tuple[Part, ...] = ()
    """Empty where it was not computed."""
    needed: int | None
    """Bytes. None: neither computed nor stated by the recipe."""
    available: int
    """Bytes of it that a replica may take."""
    unknown: str = ""
    """The facts that are missing for computing it; empty: it was computed."""


class Prediction(SpecModel):
    """What requests are expected to see at one load of one replica. Seconds, and tokens a second."""

    concurrency: int
    """Requests in flight."""
    ttft: float | None
    itl: float | None
    output_tps: float | None
    """Generated tokens a second, over all requests."""
    acceptance_length: float | None = None
    """Tokens committed a step, the bonus token included, that it counts on; None: no speculation, or not known."""
    usd_per_mtok: float | None = None
    """US dollars a million generated tokens, at the hardware's default price. None: a figure is missing."""
    source: Literal["curve", "roofline"]
    """Interpolated between measured loads, or computed from bytes and operations."""
    basis: str
    """In words: whose measurement, or what was assumed."""


class Considered(SpecModel):
    """One recipe on one kind of hardware that was looked at."""

    recipe: str
    hardware: str
    engine: str
    provenance: str
    """``measured``, ``published``, ``estimated`` or ``untested`` there."""
    chosen: bool
    reason: str
    """Why it was chosen, or why not."""
    memory: MemoryPlan | None = None
    """None: it was rejected before."""
    prediction: Prediction | None = None
    """None: rejected before, or a figure is missing."""


class WeightsPlan(SpecModel):
    """Sources of one file, in order, and the SHA-256 that it must have; None: not pinned."""

    sources: tuple[str, ...]
    sha256: Sha256 | None
    bytes: int | None
    base: ModelFacts | None = None
    """Facts of the catalog model that an endpoint's own weights are held against before the engine starts. None: they
    are the catalog model's, or were here and compared when it was planned."""


class AdapterPlan(SpecModel):
    """One LoRA adapter."""

    name: str
    """Behind the colon of a request's ``model``."""
    source: str
    """Where its directory comes from."""
    sha256: Sha256 | None
    """Of the directory. None: it is not on the machine that planned, so it is not pinned."""
    rank: int | None
    """The largest of its modules; None likewise."""
    reason: str
    """What was found in its files."""


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
    stale_after: date | None = None
    """Day after which somebody should measure again. None: nothing was."""
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
    adapters: tuple[AdapterPlan, ...] = ()
    """LoRA adapters that it has beside the model itself."""
    prefill_rate: float | None = None
    """Prompt tokens a second that a replica reads: what routing weighs a cached prefix with. None: not measured."""
    ttft_penalty: float | None = None
    """Seconds of waiting that routing may add for a cached prefix. None: the gateway's own."""
    hardware: str = ""
    """Of one replica, as people write it: ``2 × H200``."""
    obstacles: tuple[str, ...] = ()
    """Why no replica can start on this machine: the plan is for another. Empty: one can."""
    memory: MemoryPlan | None = None
    """What a replica needs, part by part."""
    prediction: Prediction | None = None
    """What requests will see, at the workload's concurrency where the spec names one."""
    considered: tuple[Considered, ...] = ()
    """Everything that was looked at, the chosen first."""
    expected: CapacityPoint | None = None
    """The measured point nearest below the planned concurrency. None: nothing is known of its speed."""
    decisions: tuple[Decision, ...]
    ignored: tuple[Ignored, ...] = ()
