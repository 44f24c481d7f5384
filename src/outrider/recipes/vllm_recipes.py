"""The vLLM project's recipes, as their site gives them: ``https://recipes.vllm.ai/ORG/MODEL.json``. Pure.

The command that it recommends for its default hardware becomes a recipe. Source of the format:
https://github.com/vllm-project/recipes/blob/main/scripts/build-recipes-api.mjs
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from outrider.errors import InvalidInput
from outrider.recipes.commands import Drafting, read_command
from outrider.recipes.imported import Imported, Origin, Placed, document, unread

SITE = "https://recipes.vllm.ai"
_TOP = ("hf_id", "meta", "recommended_command", "model", "variants", "features", "opt_in_features", "guide")
_META = ("hardware", "title", "slug", "provider", "description", "date_added", "date_updated", "difficulty",
         "performance_headline", "related_recipes", "derived_from", "variant", "tasks")  # fmt: skip
_MODEL = ("model_id", "min_vllm_version", "parameter_count", "active_parameters", "context_length", "architecture",
          "base_args", "base_env", "install")  # fmt: skip
_COMMAND = ("hardware", "strategy", "variant", "node_count", "deploy_type", "env", "command", "argv", "docker_command",
            "docker_argv", "strategy_spec", "hardware_profile", "alternatives", "by_hardware")  # fmt: skip
_UNITS = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}


def read_vllm(data: Any, *, day: date, version: str, url: str | None = None) -> Imported:
    """One recipe of what the site says of a model.

    Args:
        data: the JSON.
        day: of the import.
        version: of vLLM, where the recipe's oldest one is older: its flags are checked.
        url: where it was had; None: the site.

    Raises:
        InvalidInput: it is none of these files, or its command needs several nodes or other hardware than GPUs.
    """
    command, model = _part(data, "recommended_command"), _part(data, "model")
    identifier = _part(data, "meta").get("derived_from") or _text(data, "hf_id")
    if not isinstance(identifier, str) or not _text(data, "hf_id") or not isinstance(command.get("hardware"), str):
        raise InvalidInput(
            "This is no recipe of the vLLM project",
            why="hf_id or recommended_command.hardware is missing",
            remedy=f"Name a model's file or address: {SITE}/ORG/MODEL.json",
        )
    _check_deployment(command)
    origin = Origin(url or f"{SITE}/{data['hf_id']}.json", "vLLM project", day)
    read = read_command("vllm", [str(word) for word in command["argv"] if word not in ("vllm", "serve")])
    variant = _part(_part(data, "variants"), str(command.get("variant")))
    hardware = command["hardware"]
    engine: dict[str, Any] = {"name": "vllm", "version": version}
    if oldest := model.get("min_vllm_version"):
        engine["min_version"] = str(oldest)
    if env := {name: str(value) for name, value in _part(command, "env").items()}:
        engine["environment"] = {"env": env}
    placed = Placed(
        hardware=hardware,
        precision=str(variant.get("precision") or "unknown"),
        memory_gb=variant.get("vram_minimum_gb"),
        verified=_part(_part(data, "meta"), "hardware").get(hardware) == "verified",
    )
    made = document(
        engine,
        {"id": identifier, "aliases": [identifier.rpartition("/")[2]], "facts": _facts(model, origin.url)},
        read,
        placed,
        origin,
        drafters=list(_drafters(data)),
        note="" if oldest is None else f"the source asks for vLLM {oldest} or newer",
    )
    left_out = [f"{made['id']}: {words}" for words in read.unknown]
    fields = [
        *unread(data, _TOP),
        *unread(_part(data, "meta"), _META, "meta."),
        *unread(model, _MODEL, "model."),
        *unread(command, _COMMAND, "recommended_command."),
    ]
    return Imported([made], fields, left_out)


def _check_deployment(command: Mapping[str, Any]) -> None:
    kind = command.get("deploy_type", "single_node")
    if kind != "single_node" or not isinstance(command.get("argv"), list):
        raise InvalidInput(
            f"A deployment of kind {kind} is no recipe of Outrider's",
            why="it is more than one engine process, or gives no argv",
            remedy="Import the file of hardware that holds the model on one node: see recommended_command.by_hardware.",
        )
    brand = str(_part(command, "hardware_profile").get("brand") or "nvidia").lower()
    if brand != "nvidia":
        raise InvalidInput(f"Its hardware is {brand}'s", why="recipes are for NVIDIA GPUs", remedy="Import another.")


def _facts(model: Mapping[str, Any], url: str) -> dict[str, Any]:
    found: dict[str, Any] = {"format": "safetensors", "architecture": "unknown", "source": url}
    counts = {"parameters": model.get("parameter_count"), "active_parameters": model.get("active_parameters")}
    for name, text in counts.items():
        if (match := re.fullmatch(r"([\d.]+)([KMBT])", str(text))) is not None:
            found[name] = round(float(match[1]) * _UNITS[match[2]])
    if isinstance(model.get("context_length"), int):
        found["context_length"] = model["context_length"]
    return found


def _drafters(data: Mapping[str, Any]) -> Iterator[Drafting]:
    feature = _part(_part(data, "features"), "spec_decoding")
    for said in (feature, *(mode for mode in _part(feature, "modes").values() if isinstance(mode, dict))):
        found = read_command("vllm", [str(word) for word in said.get("args") or []]).drafting
        if found is not None:
            yield found


def _text(data: Any, name: str) -> str | None:
    found = data.get(name) if isinstance(data, dict) else None
    return found if isinstance(found, str) else None


def _part(data: Any, name: str) -> Mapping[str, Any]:
    found = data.get(name) if isinstance(data, dict) else None
    return found if isinstance(found, dict) else {}
