"""The vLLM project's recipes, as their site gives them: ``https://recipes.vllm.ai/ORG/MODEL.json``. Pure.

The command that it recommends for its default hardware becomes a recipe. Source of the format:
https://github.com/vllm-project/recipes/blob/main/scripts/build-recipes-api.mjs
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from pydantic import Field

from outrider.engines.flags import ordered
from outrider.errors import InvalidInput
from outrider.recipes.commands import Drafting, read_command
from outrider.recipes.imported import Imported, Origin, Placed, Shape, document, shaped, unread

SITE = "https://recipes.vllm.ai"
_TOP = ("hf_id", "meta", "recommended_command", "model", "variants", "features", "opt_in_features", "guide")
_META = ("hardware", "title", "slug", "provider", "description", "date_added", "date_updated", "difficulty",
         "performance_headline", "related_recipes", "derived_from", "variant", "tasks")  # fmt: skip
_MODEL = ("model_id", "min_vllm_version", "parameter_count", "active_parameters", "context_length", "architecture",
          "base_args", "base_env", "install")  # fmt: skip
_COMMAND = ("hardware", "strategy", "variant", "node_count", "deploy_type", "env", "command", "argv", "docker_command",
            "docker_argv", "strategy_spec", "hardware_profile", "alternatives", "by_hardware")  # fmt: skip
_UNITS = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


class _Meta(Shape):
    derived_from: str | None = None
    hardware: dict[str, str] = Field(default_factory=dict)


class _Profile(Shape):
    brand: str = "nvidia"


class _Command(Shape):
    hardware: str
    variant: str = ""
    deploy_type: str = "single_node"
    argv: list[str] | None = None
    env: dict[str, str | int | float | bool] = Field(default_factory=dict)
    hardware_profile: _Profile = _Profile()


class _Model(Shape):
    min_vllm_version: str | None = None
    parameter_count: str = ""
    active_parameters: str = ""
    context_length: int | None = None


class _Variant(Shape):
    precision: str = "unknown"
    vram_minimum_gb: float | None = Field(default=None, ge=0)


class _Mode(Shape):
    args: list[str] = Field(default_factory=list)


class _Drafting(_Mode):
    modes: dict[str, _Mode] = Field(default_factory=dict)


class _Features(Shape):
    spec_decoding: _Drafting = _Drafting()


class _Page(Shape):
    """What is read of a model's file."""

    hf_id: str = Field(min_length=1)
    meta: _Meta = _Meta()
    recommended_command: _Command
    model: _Model = _Model()
    variants: dict[str, _Variant] = Field(default_factory=dict)
    features: _Features = _Features()


def read_vllm(data: Any, *, day: date, version: str, url: str | None = None) -> Imported:
    """One recipe of what the site says of a model.

    Args:
        data: the JSON.
        day: of the import.
        version: of vLLM that the recipe gets, since the source names the oldest alone: its flags are checked.
        url: where it was had; None: the site.

    Raises:
        InvalidInput: it is none of these files, its command needs several nodes or other hardware than GPUs, or an
            engine newer than ``version``.
    """
    page = shaped(_Page, data, "recipe of the vLLM project", f"Name a model's file or address: {SITE}/ORG/MODEL.json")
    command, oldest = page.recommended_command, page.model.min_vllm_version
    words = _words(command)
    _check_version(oldest, version)
    identifier = page.meta.derived_from or page.hf_id
    origin = Origin(url or f"{SITE}/{page.hf_id}.json", "vLLM project", day)
    read = read_command("vllm", words)
    variant = page.variants.get(command.variant, _Variant())
    placed = Placed(
        hardware=command.hardware,
        precision=variant.precision,
        memory_gb=variant.vram_minimum_gb,
        verified=page.meta.hardware.get(command.hardware) == "verified",
    )
    made = document(
        _engine(version, oldest, command),
        {"id": identifier, "aliases": [identifier.rpartition("/")[2]], "facts": _facts(page.model, origin.url)},
        read,
        placed,
        origin,
        drafters=list(_drafters(page.features.spec_decoding)),
        note="" if oldest is None else f"the source asks for vLLM {oldest} or newer",
    )
    return Imported([made], _unread(data), [f"{made['id']}: {words}" for words in read.unknown])


def _unread(data: Mapping[str, Any]) -> list[str]:
    """Fields that no recipe has a place for."""
    parts = (("meta", _META), ("model", _MODEL), ("recommended_command", _COMMAND))
    inner = [field for name, known in parts for field in unread(data.get(name) or {}, known, f"{name}.")]
    return [*unread(data, _TOP), *inner]


def _engine(version: str, oldest: str | None, command: _Command) -> dict[str, Any]:
    engine: dict[str, Any] = {"name": "vllm", "version": version}
    if oldest is not None:
        engine["min_version"] = oldest
    if env := {name: str(value) for name, value in command.env.items()}:
        engine["environment"] = {"env": env}
    return engine


def _words(command: _Command) -> list[str]:
    """The words after ``vllm serve``, of a deployment that a recipe can hold."""
    if command.deploy_type != "single_node" or command.argv is None:
        raise InvalidInput(
            f"A deployment of kind {command.deploy_type} is no recipe of Outrider's",
            why="it is more than one engine process, or gives no argv",
            remedy="Import the file of hardware that holds the model on one node: see recommended_command.by_hardware.",
        )
    brand = command.hardware_profile.brand.lower()
    if brand != "nvidia":
        raise InvalidInput(f"Its hardware is {brand}'s", why="recipes are for NVIDIA GPUs", remedy="Import another.")
    return [word for word in command.argv if word not in ("vllm", "serve")]


def _check_version(oldest: str | None, version: str) -> None:
    """A recipe must not install an engine older than its source says serves the model."""
    if oldest is not None and ordered(oldest) > ordered(version):
        raise InvalidInput(
            f"It asks for vLLM {oldest} or newer",
            why=f"the recipe would be for {version}",
            remedy=f"Name a version that serves it: --engine-version {oldest}",
        )


def _facts(model: _Model, url: str) -> dict[str, Any]:
    found: dict[str, Any] = {"format": "safetensors", "architecture": "unknown", "source": url}
    counts = {"parameters": model.parameter_count, "active_parameters": model.active_parameters}
    for name, text in counts.items():
        if (match := re.fullmatch(r"(\d+(?:\.\d+)?)([KMBT])", text)) is not None:
            found[name] = round(float(match[1]) * _UNITS[match[2]])
    if model.context_length is not None:
        found["context_length"] = model.context_length
    return found


def _drafters(said: _Drafting) -> Iterator[Drafting]:
    for mode in (said, *said.modes.values()):
        found = read_command("vllm", mode.args).drafting
        if found is not None:
            yield found
