"""A recipe, schema version 1: how to serve one model well on one kind of hardware with one engine, and who says so.

``docs/guides/recipes.md`` is written from these fields. What a recipe does not know it leaves out: nothing is guessed.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, get_args

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
    """Memory it takes at least: of the host for kind cpu, of one GPU for kind gpu. 0: its source does not say."""

    @property
    def title(self) -> str:
        """For people: ``cpu``, ``H200``, ``8 × H200``, ``2 nodes of 8 × H200``."""
        many = f"{self.count} × {self.gpu}" if self.count > 1 else f"{self.gpu}"
        name = many if self.kind == "gpu" else "cpu"
        return f"{self.nodes} nodes of {name}" if self.nodes > 1 else name


class EngineEnvironment(SpecModel):
    """The engine's Python. Empty packages: for llama.cpp Outrider's own Python, with the extra that holds it; for the
    others an environment with the engine's package in the recipe's version."""

    python: str | None = None
    """Version (``3.11``) or path of an interpreter. None: Outrider's own."""
    packages: tuple[str, ...] = ()
    """Pinned requirements."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables of the engine's process."""
    patches: tuple[str, ...] = ()
    """Unified diffs onto the installed packages: the text of one, or ``outrider:NAME`` for one that ships."""


class RecipeEngine(SpecModel):
    """The engine and the version that the recipe was made with; flags drift between versions."""

    name: Literal["sglang", "vllm", "llamacpp"]
    version: str
    """The version that the recipe was made with, and that its environment holds; ``any`` where that does not matter."""
    min_version: str | None = None
    """The oldest version that the source says serves the model."""
    environment: EngineEnvironment = EngineEnvironment()


class Envelope(SpecModel):
    """The traffic it was made for: a recipe that wins on one workload may lose on another."""

    name: str = ""
    """What the source calls it: a dataset, a traffic shape."""
    input_tokens: int | None = None
    """Prompt length of the measurement, tokens."""
    output_tokens: int | None = None
    """Answer length of the measurement, tokens."""
    prefix_hit_rate: float | None = Field(default=None, ge=0, le=1)
    """Share of prompt tokens found in the prefix cache."""
    max_concurrency: int | None = None
    """Requests in flight beyond which nothing was tried."""


class Training(SpecModel):
    """What a drafter was trained on: it drafts well there and badly elsewhere. None: its source does not say."""

    modes: tuple[Literal["thinking", "non-thinking"], ...] | None = None
    """Modes of the target that it was trained in."""
    languages: tuple[str, ...] | None = None
    """Languages, by ISO 639-1 code."""


class BreakEven(SpecModel):
    """How good a drafter must be to pay at a load."""

    concurrency: int = Field(ge=1)
    """Requests in flight."""
    acceptance_length: float = Field(ge=1)
    """τ, the bonus token included, below which drafting is slower than plain decoding."""


class SliceOfTraffic(SpecModel):
    """How a drafter does on one kind of traffic, at one request in flight."""

    name: str = Field(min_length=1)
    """``chat``, ``code``, ``json``: what decides how predictable an answer is."""
    structured: bool = False
    """Answers have a fixed form: what a workload with ``structured_output`` is planned with."""
    acceptance_length: float = Field(ge=1)
    """τ, the bonus token included."""
    itl_over_none: float | None = Field(default=None, gt=0)
    """Time a token in the recipe's engine, divided by that without a drafter; below 1 it pays. None: τ was measured
    without an engine, on the target's answers."""


class DrafterOption(SpecModel):
    """A drafter that there is for the model, chosen or not."""

    method: Literal["dflash", "dspark", "eagle3", "mtp", "ngram", "draft"]
    """``dspark`` is listed where a source names it; no engine class of this version sets it."""
    drafter: str | None = None
    """The drafter's weights, ``hf:org/name``; None for methods without any."""
    quantization: str | None = None
    """Of the drafter's weights; ``none`` for bf16 and fp16. None: its source does not say."""
    tokens: int | None = Field(default=None, ge=1)
    """Tokens drafted a step that the source recommends, without the bonus token."""
    trained_on: Training = Training()
    """Modes and languages."""
    max_useful_concurrency: int | None = Field(default=None, ge=1)
    """The highest load at which somebody saw it pay. None: nobody says."""
    acceptance_length: float | None = Field(default=None, ge=1)
    """τ that the source reports, the bonus token included."""
    break_even: tuple[BreakEven, ...] = ()
    """By rising concurrency."""
    slices: tuple[SliceOfTraffic, ...] = ()
    """Kinds of traffic that were measured one by one."""
    source: str = Field(min_length=1)
    """A URL, or how it was measured."""
    note: str = ""
    """What else a reader must know, on one line."""


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

    max_context: int | None = Field(default=None, ge=1)
    """Tokens a request may hold. None: its source does not say."""
    max_concurrency: int = Field(ge=1)
    """Requests a replica decodes at once."""


class Figures(SpecModel):
    """What one load of one replica gave; times in seconds, rates a second. What was not measured is None."""

    ttft_p50: float | None = Field(default=None, gt=0)
    ttft_p95: float | None = Field(default=None, gt=0)
    ttft_mean: float | None = Field(default=None, gt=0)
    """The mean, or a published value whose source does not say which statistic it is."""
    itl_p50: float | None = Field(default=None, gt=0)
    """Per request, (last − first content event) ÷ (tokens − 1)."""
    itl_p95: float | None = Field(default=None, gt=0)
    itl_mean: float | None = Field(default=None, gt=0)
    """As ``ttft_mean``; published tables call it TPOT."""
    output_tps: float | None = Field(default=None, gt=0)
    """Generated tokens a second, over all requests and GPUs of the replica."""
    total_tps: float | None = Field(default=None, gt=0)
    """Prompt and generated tokens a second, over all requests and GPUs of the replica."""
    acceptance_length: float | None = Field(default=None, ge=1)
    """Tokens committed a verification step, the bonus token included; None without speculation or where unsaid."""

    @property
    def ttft(self) -> float | None:
        """The middle one as far as it is known: the median, else the mean."""
        return self.ttft_mean if self.ttft_p50 is None else self.ttft_p50

    @property
    def itl(self) -> float | None:
        """Likewise."""
        return self.itl_mean if self.itl_p50 is None else self.itl_p50


class CapacityPoint(Figures):
    """One measured load of one replica."""

    concurrency: int = Field(ge=1)
    """Requests in flight, held constant."""


class Observation(Figures):
    """Figures that are no point of the curve: their load, engine or hardware is not exactly the recipe's."""

    workload: Envelope = Envelope()
    """What traffic it was."""
    concurrency: int | None = Field(default=None, ge=1)
    """Requests in flight. None: an open load, or the source does not say."""
    gpus: int | None = Field(default=None, ge=1)
    """GPUs that the figures are of. None: the source does not say; the rates are then of one GPU."""
    difference: str = Field(min_length=1)
    """What differs from the recipe, on one line."""
    source: str = Field(min_length=1)
    """A URL."""


Status = Literal["measured", "published", "estimated", "untested"]
STATUSES: tuple[Status, ...] = get_args(Status)
"""From the best provenance to the worst."""


class Provenance(SpecModel):
    """Who says so."""

    status: Status
    """Measured here with the command below; published: the URL's author ran it on this hardware; estimated from the
    model's facts; untested: nobody says that it ran on this hardware, whoever wrote the configuration."""
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
    """The drafter that it runs with."""
    drafters: tuple[DrafterOption, ...] = ()
    """Drafters that there are for the model."""
    limits: Limits
    warm_up: tuple[dict[str, Any], ...] | None = None
    """Payloads ``{"path", "body"}`` sent before users' requests come. None: the engine's usual ones."""
    capacity_curve: tuple[CapacityPoint, ...] = ()
    """By rising concurrency; empty: nothing is known of its speed."""
    observations: tuple[Observation, ...] = ()
    """Further published figures of the model, for comparison."""
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
