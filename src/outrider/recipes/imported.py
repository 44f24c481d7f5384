"""Recipes made of somebody else's: what every importer shares. Pure: data in, documents and what was not read out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from outrider.engines.speculation import WITH_DRAFTER
from outrider.errors import InvalidInput
from outrider.recipes.commands import Command, Drafting
from outrider.spec.names import nearest_name
from outrider.spec.problems import problems

_FRESH = timedelta(days=180)
"""How long an imported recipe is taken to be right: engines drift."""
_SHOWN = 3
"""Wrong fields that a message names."""
_NAMES = {"rtx": "RTX", "pro": "PRO"}


class Shape(BaseModel):
    """A part of somebody else's file: the fields that are read. A null is as good as none."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data


_Shaped = TypeVar("_Shaped", bound=Shape)


def shaped(shape: type[_Shaped], data: Any, what: str, remedy: str = "") -> _Shaped:
    """The fields of somebody else's file that are read.

    Args:
        what: it should be, for the message.

    Raises:
        InvalidInput: fields are missing or of another kind; says which.
    """
    try:
        return shape.model_validate(data)
    except ValidationError as error:
        bad = [problem["message"] for problem in problems(shape, error.errors())[:_SHOWN]]
        raise InvalidInput(f"This is no {what}", why="; ".join(bad), remedy=remedy) from error


@dataclass(slots=True)
class Imported:
    """What an importer made.

    Attributes:
        recipes: documents of schema version 1, not yet checked.
        unread: fields of the source that no recipe has a place for, dotted.
        left_out: what of a recipe's command could not be carried over, as ``recipe id: words``.
    """

    recipes: list[dict[str, Any]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a recipe comes from.

    Attributes:
        url: of the source.
        who: whose it is.
        day: of the import.
    """

    url: str
    who: str
    day: date


@dataclass(frozen=True, slots=True)
class Placed:
    """What a recipe runs on and how it leans, as the source says.

    Attributes:
        hardware: the source's id of the GPU, ``h200`` or ``rtx_5090``.
        precision: of the weights.
        profile: latency, balanced or throughput.
        memory_gb: that all GPUs together need at least; None: the source does not say.
        verified: whether the source says that it ran on this hardware.
    """

    hardware: str
    precision: str
    profile: str = "balanced"
    memory_gb: float | None = None
    verified: bool = False


def gpu_name(identifier: str) -> str:
    """``rtx_5090`` as GPUs are named, ``RTX 5090``."""
    return " ".join(_NAMES.get(part, part.upper()) for part in identifier.split("_"))


def unread(data: Mapping[str, Any], read: Iterable[str], prefix: str = "") -> list[str]:
    """The fields of ``data`` that are not in ``read``, and not empty."""
    known = set(read)
    return [f"{prefix}{name}" for name, value in data.items() if name not in known and value not in (None, {}, [], "")]


def document(
    engine: Mapping[str, Any],
    model: Mapping[str, Any],
    command: Command,
    placed: Placed,
    origin: Origin,
    *,
    drafters: Sequence[Drafting] = (),
    workload: Mapping[str, Any] | None = None,
    curve: Sequence[Mapping[str, Any]] = (),
    note: str = "",
) -> dict[str, Any]:
    """One recipe.

    Args:
        engine, model: of the schema, with ``name`` and ``version``, and with ``id`` and ``facts``.
        command: what the source runs; its model is the weights.
        drafters: further ones that the source names.
        workload: of the schema, what the curve was measured with.
        note: what else a reader must know.
    """
    speculation, options = _speculation(command.drafting, drafters, origin.url)
    count = _gpus(str(engine["name"]), command)
    further = {"drafters": options, "workload": workload, "capacity_curve": list(curve)}
    return {
        **_identity(engine, model, placed, count),
        "weights": [{"reference": f"hf:{command.model or model['id']}"}],
        "hardware": _hardware(placed, count),
        "engine": dict(engine),
        "profile": placed.profile,
        "flags": {name: {"value": value, "reason": "as the source sets it"} for name, value in command.flags.items()},
        "speculation": speculation,
        "limits": _limits(command, model, curve),
        **{name: value for name, value in further.items() if value},
        "provenance": _provenance(command, placed, origin, note),
        "stale_after": origin.day + _FRESH,
    }


def _hardware(placed: Placed, count: int) -> dict[str, Any]:
    each = int((placed.memory_gb or 0) * 1e9 / count)
    return {"kind": "gpu", "gpu": gpu_name(placed.hardware), "count": count, "min_memory_bytes": each}


def _limits(command: Command, model: Mapping[str, Any], curve: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    context = command.flags.get("context") or model["facts"].get("context_length")
    return {"max_context": context, "max_concurrency": command.flags.get("slots") or _most(curve)}


def _gpus(engine: str, command: Command) -> int:
    """GPUs of one replica; what vLLM calls data parallel is further copies on further GPUs."""
    copies = command.flags.get("data_parallel_size", 1) if engine == "vllm" else 1
    return max(1, int(command.flags.get("gpus", 1)) * int(copies))


def _identity(engine: Mapping[str, Any], model: Mapping[str, Any], placed: Placed, count: int) -> dict[str, Any]:
    name = _identifier(str(engine["name"]), str(model["id"]), placed, count)
    return {"schema_version": 1, "id": name, "version": 1, "model": dict(model), "precision": placed.precision}


def _identifier(engine: str, model: str, placed: Placed, count: int) -> str:
    """``model/engine-hardware-precision``, and how it leans."""
    many = f"{count}x" if count != 1 else ""
    tail = "" if placed.profile == "balanced" else f"-{placed.profile}"
    hardware = f"{many}{placed.hardware.replace('_', '-')}-{placed.precision}{tail}"
    return f"{nearest_name(model.rpartition('/')[2])}/{engine}-{hardware}".lower()


_SLOTS = 256
"""Requests decoded at once where a source says nothing: what vLLM's own default is at least."""


def _most(curve: Sequence[Mapping[str, Any]]) -> int:
    return max((int(point["concurrency"]) for point in curve), default=_SLOTS)


def _speculation(
    chosen: Drafting | None, further: Sequence[Drafting], url: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A drafter with weights of its own is listed, not chosen: no source says how they are quantised."""
    listed = [*([chosen] if chosen else []), *(drafting for drafting in further if drafting != chosen)]
    options = [
        {
            "method": drafting.method,
            **({"drafter": f"hf:{drafting.model}"} if drafting.model else {}),
            **({"tokens": drafting.tokens} if drafting.tokens else {}),
            "source": url,
        }
        for drafting in listed
    ]
    if chosen is None:
        return {"method": "off", "reason": "as the source runs it"}, options
    if chosen.method in (*WITH_DRAFTER, "dspark"):
        why = f"the source runs {chosen.method}, and does not say what this engine must be told of its weights"
        return {"method": "off", "reason": why}, options
    tokens = {"tokens": chosen.tokens} if chosen.tokens else {}
    return {"method": chosen.method, **tokens, "reason": "as the source runs it"}, options


def _provenance(command: Command, placed: Placed, origin: Origin, note: str) -> dict[str, Any]:
    changed = command.drafting is not None and command.drafting.method in (*WITH_DRAFTER, "dspark")
    notes = [note] if note else []
    if command.unknown:
        notes.append(f"left out: {', '.join(command.unknown)}")
    if not placed.verified:
        notes.append("the source names no run on this hardware")
    whole = placed.verified and not command.unknown and not changed
    return {
        "status": "published" if whole else "untested",
        "when": origin.day,
        "who": origin.who,
        "url": origin.url,
        **({"note": "; ".join(notes)} if notes else {}),
    }
