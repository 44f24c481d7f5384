"""A recipe, schema version 1: how to serve one model well on one kind of hardware with one engine, and who says so."""

from __future__ import annotations

from datetime import date
from typing import Literal

from pydantic import Field

from outrider.spec.base import SpecModel
from outrider.spec.facts import ModelFacts

FlagValue = bool | int | float | str


class ReasonedFlag(SpecModel):
    """An engine flag's value and why it has it; ``max`` bounds what a user may set it to."""

    value: FlagValue | None
    reason: str


class WeightsSource(SpecModel):
    """One place a file can be had. ``sha256`` None: not pinned, and the plan says so."""

    reference: str
    sha256: str | None = None
    bytes: int | None = None


class RecipeModel(SpecModel):
    """The model: hub id, other spellings, and facts with their source."""

    id: str
    aliases: tuple[str, ...] = ()
    facts: ModelFacts


class Hardware(SpecModel):
    """What it runs on. ``gpu`` and ``count`` for kind gpu; ``min_memory_bytes`` is host memory for kind cpu."""

    kind: Literal["cpu", "gpu"]
    gpu: str | None = None
    count: int = 1
    nodes: int = 1
    min_memory_bytes: int


class RecipeEngine(SpecModel):
    """Engine and the version that the recipe was made with; packages empty: Outrider's own Python."""

    name: Literal["sglang", "vllm", "llamacpp"]
    version: str
    python: str | None = None
    packages: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)


class Speculation(SpecModel):
    """Whether and how a drafter speculates, and why."""

    method: Literal["off", "dflash", "eagle3", "mtp", "ngram", "draft"]
    drafter: str | None = None
    tokens: int | None = None
    max_useful_concurrency: int | None = None
    reason: str


class Limits(SpecModel):
    """What the recipe was made for."""

    max_context: int
    max_concurrency: int


class CapacityPoint(SpecModel):
    """One measured load. Seconds; ``output_tps`` counts generated tokens only, ``total_tps`` the prompt's too."""

    concurrency: int
    ttft_p50: float
    ttft_p95: float
    itl_p50: float
    itl_p95: float
    output_tps: float
    total_tps: float
    acceptance_length: float | None = None


class Provenance(SpecModel):
    """Who says so: measured here, published elsewhere (``url``), estimated from facts, or untested."""

    status: Literal["measured", "published", "estimated", "untested"]
    when: date
    who: str = ""
    tool: str = ""
    command: str = ""
    url: str = ""
    machine: str = ""
    note: str = ""


class Recipe(SpecModel):
    """One way to serve one model."""

    schema_version: Literal[1]
    id: str
    version: int
    model: RecipeModel
    precision: str
    weights: tuple[WeightsSource, ...] = Field(min_length=1)
    hardware: Hardware
    engine: RecipeEngine
    profile: Literal["latency", "balanced", "throughput"] = "balanced"
    tasks: tuple[Literal["generate", "embed"], ...] = ("generate",)
    flags: dict[str, ReasonedFlag]
    speculation: Speculation
    limits: Limits
    capacity_curve: tuple[CapacityPoint, ...] = ()
    provenance: Provenance
    stale_after: date
