"""What a drafter is trained with: one YAML file, read strictly, and written back whole beside the drafter."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ..errors import UsageError
from .losses import LossSettings
from .optimizers import OptimizerSettings


@dataclass(frozen=True)
class ShapeSettings:
    """The drafter's shape; what is not said follows the target.

    Attributes:
        layers: layers of the drafter.
        taps: tapped layers of the target, 0-based, post-layer; null spreads as many as ``layers``, at least three.
        block: tokens of a block, the anchor included.
        intermediate: width of the SwiGLU; null for the target's.
        heads: query heads; null for the target's.
        kv_heads: key and value heads; null for the target's.
        head_dim: width of a head; null for the target's.
        rope_theta: base of the rotary frequencies; null for the target's.
        mask_token: an unused token of the target; null finds one.
        selector_rank: rank of DFlash 2's selector and, with it, DFlash 2's convolutions; 0 for plain DFlash.
        selector_top_k: candidates a slot that the selector chooses from.
    """

    layers: int = 2
    taps: tuple[int, ...] | None = None
    block: int = 8
    intermediate: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    rope_theta: float | None = None
    mask_token: int | None = None
    selector_rank: int = 0
    selector_top_k: int = 16


@dataclass(frozen=True)
class TrainSettings:
    """One training run.

    Attributes:
        shape: the drafter's; ignored where training starts from one.
        loss: what is minimised.
        optimizer: how weights are moved.
        steps: steps in all; 0 fits as many as ``minutes`` allow, measured over the first ones.
        minutes: length of the run where ``steps`` is 0.
        rows: packed rows a step, in each process.
        width: tokens a row.
        anchors: blocks drawn a row and step.
        joined: share of rows whose conversations follow each other as one document.
        labels: ``data`` for the data's tokens; ``target`` for the target's own most likely token after each of them, up
            to the first that the data does not follow.
        selector_weight: weight of the selector's loss beside the unary one.
        precision: ``bf16`` runs forward and backward under autocast, with fp32 masters; ``fp32`` does not.
        compile: compile the layers of target and drafter: a minute at the start, faster steps; for CUDA.
        gradient_checkpointing: recompute the drafter's layers in the backward pass: less memory, slower.
        seed: of initialisation, order and anchors.
        validate_every: steps between measurements on held-out rows; 0 for none.
        save_every: steps between resumable states; 0 for the last one only.
    """

    shape: ShapeSettings = field(default_factory=ShapeSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    steps: int = 1000
    minutes: float = 0.0
    rows: int = 8
    width: int = 2048
    anchors: int = 256
    joined: float = 0.25
    labels: Literal["data", "target"] = "target"
    selector_weight: float = 1.0
    precision: Literal["bf16", "fp32"] = "bf16"
    compile: bool = False
    gradient_checkpointing: bool = False
    seed: int = 0
    validate_every: int = 250
    save_every: int = 500

    def emit(self) -> dict[str, Any]:
        """All of it as plain values."""
        return asdict(self)


def read(path: Path, *, section: str | None = None) -> TrainSettings:
    """Read a YAML file of :class:`TrainSettings`, or one section of it.

    Raises:
        UsageError: the file cannot be read, or a field is unknown or of another type.
    """
    import yaml

    try:
        document = yaml.safe_load(path.read_text()) or {}
    except (OSError, yaml.YAMLError) as error:
        raise UsageError(f"The settings {path} cannot be read", why=str(error)) from None
    return parse(document if section is None else document.get(section, {}))


def parse(document: Mapping[str, Any]) -> TrainSettings:
    """Settings from plain values.

    Raises:
        UsageError: a field is unknown or of another type.
    """
    settings: TrainSettings = _parse(TrainSettings, document, "")
    return settings


def _parse(kind: type[Any], document: Any, where: str) -> Any:
    if not isinstance(document, Mapping):
        raise UsageError(f"The settings hold no fields at {where or 'the top'}", remedy="Write name: value lines.")
    hints = get_type_hints(kind)
    known = [each.name for each in fields(kind)]
    values = {}
    for name, value in document.items():
        if name not in known:
            raise UsageError(f"There is no setting {where}{name}", remedy=f"Say one of {', '.join(known)}.")
        hint = hints[name]
        if is_dataclass(hint) and isinstance(hint, type):
            values[name] = _parse(hint, value, f"{where}{name}.")
        else:
            values[name] = _value(hint, value, f"{where}{name}")
    return kind(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if value is None else _value(next(a for a in args if a is not type(None)), value, where)
    if origin is Literal:
        if value in args:
            return value
        raise UsageError(f"The setting {where} is {value!r}", remedy=f"Say one of {', '.join(map(str, args))}.")
    if origin is tuple and isinstance(value, (list, tuple)):
        return tuple(_value(args[0], part, where) for part in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise UsageError(f"The setting {where} is {value!r}", remedy=f"It is of type {getattr(hint, '__name__', hint)}.")
