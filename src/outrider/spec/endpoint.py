"""``Endpoint``: what a user declares. Only ``model`` is required. YAML and Python give the same object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator

from outrider.errors import InvalidName, InvalidSpec
from outrider.errors import Problem as _Problem
from outrider.spec.base import SpecModel
from outrider.spec.drafter import Drafter
from outrider.spec.names import check_name, name_for_model
from outrider.spec.objective import Objective
from outrider.spec.problems import problems
from outrider.spec.regions import Regions
from outrider.spec.resources import Resources
from outrider.spec.scaling import Scaling
from outrider.spec.workload import Workload


class Endpoint(SpecModel):
    """A named, OpenAI-compatible service for one model."""

    model: str = Field(min_length=1, max_length=500)
    """Hub id (``org/name``) of a model in the catalog, or weights (``path:…``) that facts can be read from."""
    name: str | None = None
    """DNS label of at most 40 characters; clients send it as ``model``. None: made from the model's name."""
    task: Literal["generate", "embed"] = "generate"
    """What it is for."""
    workload: Workload = Workload()
    """What the traffic looks like."""
    objective: Objective = Objective()
    """What the user wants of the latency."""
    scaling: Scaling = Scaling()
    """How many replicas."""
    resources: Resources = Resources()
    """What a replica may use."""
    regions: Regions = Regions()
    """Where; ignored, with a reason in the plan, by placements without regions."""
    drafter: Drafter = Drafter()
    """Which draft model."""
    weights: str | None = None
    """Other weights for the model's recipe: ``hf:…``, ``path:…``, ``package:…``. None: the recipe's."""
    engine: Literal["sglang", "vllm", "llamacpp"] | None = None
    """None: the planner's choice."""
    recipe: str | None = None
    """A recipe's id. None: the planner's choice."""
    profile: Literal["latency", "balanced", "throughput"] = "balanced"
    """Which way a recipe leans. balanced: what most chats want."""
    flags: dict[str, bool | int | float | str] = Field(default_factory=dict)
    """Engine flags set by hand; they win over the recipe's."""
    unauthenticated: bool = False
    """No key is asked for, even where others need one."""
    description: str = Field(default="", max_length=500)
    """For people."""

    @field_validator("name")
    @classmethod
    def _label(cls, value: str | None) -> str | None:
        try:
            return None if value is None else check_name(value)
        except InvalidName as error:
            raise ValueError(f"{error.why}; {error.remedy}") from error

    @property
    def label(self) -> str:
        """The endpoint's name, given or made."""
        return self.name or name_for_model(self.model)


def parse(data: Mapping[str, Any]) -> Endpoint:
    """A spec from plain data. Raises InvalidSpec, naming every bad field."""
    try:
        return Endpoint.model_validate(data)
    except ValidationError as error:
        found = problems(Endpoint, error.errors())
        raise InvalidSpec(
            "The endpoint's spec is not valid", found, remedy="Nothing was changed; correct it."
        ) from error


def load_yaml(text: str) -> list[Endpoint]:
    """Specs from YAML, one a document. Raises InvalidSpec."""
    try:
        documents = [document for document in yaml.safe_load_all(text) if document is not None]
    except yaml.YAMLError as error:
        line = str(error).replace("\n", " ")
        raise InvalidSpec("The file is no YAML", [_Problem(field="(file)", message=line)]) from error
    for document in documents:
        if not isinstance(document, dict):
            shown = repr(document)[:80]
            problem = _Problem(field="(document)", value=shown, message=f"a document must be a mapping, not {shown}")
            raise InvalidSpec("The file holds no endpoint", [problem], remedy="Begin with: model: org/name")
    return [parse(document) for document in documents]
