"""``Endpoint``: what a user declares. Only ``model`` is required. YAML and Python give the same object."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from outrider.errors import InvalidName, InvalidSpec, Problem
from outrider.spec.base import SpecModel
from outrider.spec.documents import read_documents
from outrider.spec.drafter import Drafter
from outrider.spec.names import ADAPTER, LABEL, check_name, name_for_model, nearest_name
from outrider.spec.objective import Objective
from outrider.spec.problems import problems
from outrider.spec.regions import Regions
from outrider.spec.resources import Resources
from outrider.spec.scaling import Scaling
from outrider.spec.workload import Workload

_ONE_LINE = r"^(\S(.*\S)?)?$"
_REMEDY = "Nothing was changed; correct it."
_MOST_ADAPTERS = 64


def _adapter(value: str) -> str:
    if not (re.fullmatch(r"(hf|path):\S.*", value) and value.isprintable()) or "#" in value:
        raise ValueError("a directory: hf:org/name@revision or path:/directory")
    return value


AdapterReference = Annotated[
    str, AfterValidator(_adapter), Field(max_length=500, json_schema_extra={"pattern": r"^(hf|path):[^#]*\S$"})
]
"""Where an adapter's directory comes from."""


class Endpoint(SpecModel):
    """A named, OpenAI-compatible service for one model."""

    model: str = Field(min_length=1, max_length=500, json_schema_extra={"pattern": _ONE_LINE})
    """Hub id (``org/name``) of a model in the catalog, or a GGUF file (``path:/…``) that facts can be read from."""
    name: str | None = Field(default=None, json_schema_extra={"pattern": f"^{LABEL}$"})
    """DNS label of at most 40 characters; clients send it as ``model``. None: made from the model's name."""
    task: Literal["generate", "embed"] = "generate"
    """What it is for: chat and completions, or embeddings. generate: what most endpoints are."""
    workload: Workload = Workload()
    """What the traffic looks like. Left out: a chat."""
    objective: Objective = Objective()
    """What the user wants of the latency. Left out: unbounded."""
    scaling: Scaling = Scaling()
    """How many replicas. Left out: one."""
    resources: Resources = Resources()
    """What a replica may use. Left out: what the recipe needs."""
    regions: Regions = Regions()
    """Where; ignored, with a reason in the plan, by placements without regions."""
    drafter: Drafter = Drafter()
    """Which draft model; a bare string will do."""
    weights: str | None = Field(default=None, json_schema_extra={"pattern": r"^(hf|path|package):(.*\S)$"})
    """Other weights for the model's recipe: ``hf:…``, ``path:…``, ``package:…``. None: the recipe's own sources."""
    adapters: dict[str, AdapterReference] = Field(
        default_factory=dict,
        max_length=_MOST_ADAPTERS,
        json_schema_extra={"propertyNames": {"pattern": f"^{ADAPTER}$"}},
    )
    """LoRA adapters on the model, by name: ``hf:…`` or ``path:…``. Clients send ``NAME:ADAPTER`` as ``model``. Left
    out: none."""
    engine: Literal["sglang", "vllm", "llamacpp"] | None = None
    """Which engine. None: the planner's choice."""
    recipe: str | None = Field(default=None, json_schema_extra={"pattern": _ONE_LINE})
    """A recipe's id. None: the planner's choice."""
    profile: Literal["latency", "balanced", "throughput"] = "balanced"
    """Which way a recipe should lean; another is taken where none does, and the plan says so. balanced: most chats."""
    flags: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """Engine flags set by hand, by the recipe's names; they win over the recipe's, and the plan says so."""
    unauthenticated: bool = False
    """Whether no key is asked for. False: once keys exist, every endpoint asks."""
    description: str = Field(default="", max_length=500)
    """For people."""

    @field_validator("model", "weights", "recipe")
    @classmethod
    def _one_line(cls, value: str | None) -> str | None:
        if value is not None and not (value.isprintable() and value.strip() == value):
            raise ValueError("one line of printable text without spaces around it")
        return value

    @field_validator("weights")
    @classmethod
    def _reference(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"(hf|path|package):.", value):
            raise ValueError("a reference: hf:org/name@revision#file, path:/file or package:name==version#file")
        return value

    @field_validator("adapters")
    @classmethod
    def _named(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            if not re.fullmatch(ADAPTER, name):
                raise ValueError(f"{name[:80]!r} is no adapter's name: letters, digits, dots, hyphens, at most 64")
        return value

    @field_validator("name")
    @classmethod
    def _label(cls, value: str | None) -> str | None:
        try:
            return None if value is None else check_name(value)
        except InvalidName as error:
            why = f"{error.why}; {error.remedy}"
            near = nearest_name(value or "") or None
            raise PydanticCustomError("name", "{why}", {"why": why, "nearest": near}) from error

    @model_validator(mode="after")
    def _one_port(self) -> Endpoint:
        if self.resources.port is not None and max(self.scaling.min_replicas, self.scaling.max_replicas or 0) > 1:
            raise ValueError("resources.port allows one replica on a machine; leave it out to have several")
        return self

    @property
    def label(self) -> str:
        """The endpoint's name, given or made."""
        return self.name or name_for_model(self.model)


def parse(data: Mapping[str, Any]) -> Endpoint:
    """A spec from plain data.

    Raises:
        InvalidSpec: with every bad field, its value, what is allowed and the nearest spelling.
    """
    found = _problems(data)
    if isinstance(found, Endpoint):
        return found
    raise InvalidSpec("The endpoint's spec is not valid", found, remedy=_REMEDY)


def load_yaml(text: str) -> list[Endpoint]:
    """Specs from YAML, one a document; none from an empty text.

    Raises:
        InvalidSpec: with every bad field of every document.
    """
    endpoints: list[Endpoint] = []
    bad: list[Problem] = []
    documents = read_documents(text)
    for number, document in enumerate(documents, 1):
        found = _problems(document)
        if isinstance(found, Endpoint):
            endpoints.append(found)
            continue
        where = f"document {number}: " if len(documents) > 1 else ""
        bad += [Problem({**problem, "message": f"{where}{problem['message']}"}) for problem in found]
    if bad:
        raise InvalidSpec("The endpoint's spec is not valid", bad, remedy=_REMEDY)
    return endpoints


def _problems(data: Mapping[str, Any]) -> Endpoint | list[Problem]:
    try:
        return Endpoint.model_validate(data)
    except ValidationError as error:
        return problems(Endpoint, error.errors())
