"""A recipe, schema version 1: how to serve one model well on one kind of hardware with one engine, and who says so.

``docs/guides/recipes.md`` is written from these fields. What a recipe does not know it leaves out: nothing is guessed.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from outrider.recipes.flags import FlagValue
from outrider.spec.base import SpecModel
from outrider.spec.facts import ModelFacts


def _hex_digest(value: str) -> str:
    if len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise ValueError("64 lower-case hexadecimal digits")
    return value


Sha256 = Annotated[str, AfterValidator(_hex_digest)]


class ReasonedFlag(SpecModel):
    """An engine flag's value and why it has it. A flag without a reason cannot be judged, so the reason is required."""

    value: FlagValue
    """As the engine's class takes it."""
    reason: str = Field(min_length=1)
    """One line; it becomes the comment above the flag in ``serve.py``."""


class WeightsSource(SpecModel):
    """One place a file can be had."""

    reference: str = Field(pattern=r"^(hf|path|package):.")
    """``hf:org/name@revision#file``, ``path:/file`` or ``package:name==version#file``."""
    sha256: Sha256 | None = None
    """Of the file. None: not pinned, and the plan says so."""
    bytes: int | None = Field(default=None, gt=0)
    """Size of the file."""


class RecipeModel(SpecModel):
    """The model."""

    id: str
    """Hub id, ``org/name``."""
    aliases: tuple[str, ...] = ()
    """Other spellings that mean it; case never matters."""
    revision: str | None = None
    """Commit of the model's repository that the weights were made from. None: not known."""
    facts: ModelFacts
    """Architecture, with its source."""


class Hardware(SpecModel):
    """What it runs on."""

    kind: Literal["cpu", "gpu"]
    gpu: str | None = None
    """GPU model, for kind gpu."""
    count: int = Field(default=1, ge=1)
    """GPUs a node."""
    nodes: int = Field(default=1, ge=1)
    """Nodes of one replica."""
    min_memory_bytes: int = Field(ge=0)
    """Memory it takes at least: of the host for kind cpu, of one GPU for kind gpu."""


class EngineEnvironment(SpecModel):
    """The engine's Python. Empty packages: Outrider's own Python, with the extra that holds the engine."""

    python: str | None = None
    """Version (``3.11``) or path of an interpreter. None: Outrider's own."""
    packages: tuple[str, ...] = ()
    """Pinned requirements."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the engine's process."""
    patches: tuple[str, ...] = ()
    """Unified diffs onto the installed packages."""


class RecipeEngine(SpecModel):
    """The engine and the version that the recipe was made with; flags drift between versions."""

    name: Literal["sglang", "vllm", "llamacpp"]
    version: str
    environment: EngineEnvironment = EngineEnvironment()


class Envelope(SpecModel):
    """The traffic it was made for: a recipe that wins on one workload may lose on another."""

    input_tokens: int | None = None
    """Prompt length of the measurement, tokens."""
    output_tokens: int | None = None
    """Answer length of the measurement, tokens."""
    prefix_hit_rate: float | None = Field(default=None, ge=0, le=1)
    """Share of prompt tokens found in the prefix cache."""
    max_concurrency: int | None = None
    """Requests in flight beyond which nothing was tried."""


class Speculation(SpecModel):
    """Whether and how a drafter speculates, and why."""

    method: Literal["off", "dflash", "eagle3", "mtp", "ngram", "draft"]
    drafter: str | None = None
    """The drafter's weights; None for methods without any."""
    quantization: str | None = None
    """Of the drafter's weights, in the engine's words; ``none`` for bf16 and fp16. Needed where there is a drafter."""
    tokens: int | None = Field(default=None, ge=1)
    """Tokens drafted a step, without the bonus token. None: few, see :mod:`outrider.engines.speculation`."""
    max_useful_concurrency: int | None = Field(default=None, ge=1)
    """Requests in flight beyond which drafting costs more than it gives."""
    reason: str = Field(min_length=1)
    """One line."""


class Limits(SpecModel):
    """Beyond these the recipe was never meant to go."""

    max_context: int = Field(ge=1)
    """Tokens a request may hold."""
    max_concurrency: int = Field(ge=1)
    """Requests a replica decodes at once."""


class CapacityPoint(SpecModel):
    """One measured load of one replica; times in seconds, rates a second. What was not measured is None."""

    concurrency: int = Field(ge=1)
    """Requests in flight, held constant."""
    ttft_p50: float | None = Field(default=None, gt=0)
    ttft_p95: float | None = Field(default=None, gt=0)
    itl_p50: float | None = Field(default=None, gt=0)
    """Per request, (last − first content event) ÷ (tokens − 1)."""
    itl_p95: float | None = Field(default=None, gt=0)
    output_tps: float | None = Field(default=None, gt=0)
    """Generated tokens a second, over all requests."""
    total_tps: float | None = Field(default=None, gt=0)
    """Prompt and generated tokens a second, over all requests."""
    acceptance_length: float | None = Field(default=None, ge=1)
    """Tokens committed a verification step, the bonus token included; None without speculation."""


class Provenance(SpecModel):
    """Who says so."""

    status: Literal["measured", "published", "estimated", "untested"]
    """Measured with the command below, published at the URL, estimated from the model's facts, or untested."""
    when: date | None = None
    """Day of the measurement or publication. None: made at planning."""
    who: str = ""
    tool: str = ""
    """What measured."""
    command: str = ""
    """What to type to measure again."""
    url: str = ""
    machine: str = ""
    """What it was measured on."""
    note: str = ""

    @model_validator(mode="after")
    def _supported(self) -> Provenance:
        if self.status == "measured" and not (self.when and self.tool and self.command and self.machine):
            raise ValueError("measured needs when, tool, command and machine")
        if self.status == "published" and not self.url:
            raise ValueError("published needs a url")
        return self


class Recipe(SpecModel):
    """One way to serve one model."""

    schema_version: Literal[1]
    id: str = Field(pattern=r"^[a-z0-9][a-z0-9._/-]*$")
    """Unique name, ``model/engine-hardware`` by custom."""
    version: int = Field(ge=1)
    """Counts up with every change, so that a plan says which one it used."""
    model: RecipeModel
    precision: str
    """Of the weights, as the files name it."""
    weights: tuple[WeightsSource, ...] = Field(min_length=1)
    """In the order they are tried. One digest stands for one file: those with another are not mixed in."""
    hardware: Hardware
    engine: RecipeEngine
    profile: Literal["latency", "balanced", "throughput"] = "balanced"
    """Which way it leans."""
    tasks: tuple[Literal["generate", "embed"], ...] = Field(default=("generate",), min_length=1)
    """What it can serve."""
    workload: Envelope = Envelope()
    """What traffic it was made for."""
    flags: dict[str, ReasonedFlag]
    """In the order they are shown."""
    speculation: Speculation
    limits: Limits
    warm_up: tuple[dict[str, Any], ...] | None = None
    """Payloads ``{"path", "body"}`` sent before users' requests come. None: the engine's usual ones."""
    capacity_curve: tuple[CapacityPoint, ...] = ()
    """By rising concurrency; empty: nothing is known of its speed."""
    provenance: Provenance
    stale_after: date | None = None
    """Day after which somebody should measure again. None: nothing was measured."""

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        loads = [point.concurrency for point in self.capacity_curve]
        if loads != sorted(set(loads)):
            raise ValueError("capacity_curve must rise in concurrency, each load once")
        if self.hardware.kind == "gpu" and not self.hardware.gpu:
            raise ValueError("hardware of kind gpu needs a gpu")
        if self.provenance.status == "measured" and not self.capacity_curve:
            raise ValueError("provenance measured needs a capacity_curve")
        return self
