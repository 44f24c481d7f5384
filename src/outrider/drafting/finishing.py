"""The end of a training run: the drafter's files, with a card that says what it was made from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import checkpoint
from .model import DFlash
from .settings import TrainSettings

CARD = "drafter.json"


def save(
    drafter: DFlash, directory: Path, *, name: str, target: Mapping[str, Any], manifest: Mapping[str, Any],
    settings: TrainSettings, steps: int, parent: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Write weights, config and card; the card.

    Args:
        drafter: trained.
        directory: for the files.
        name: what people call it.
        target: ``name`` and ``sha256`` of the target.
        manifest: of the data.
        settings: of the run.
        steps: that it took.
        parent: digest or name of the drafter that it started from.
    """
    checkpoint.save(drafter, directory)
    train = [key for key in manifest["rows"] if key.startswith("train/")]
    card = {
        "name": name,
        "parent": parent,
        "target": dict(target),
        "data": {
            "manifest": manifest["sha256"],
            "examples": sum(manifest["rows"][key] for key in train),
            "tokens": sum(manifest["answer_tokens"][key] for key in train),
        },
        "hyperparameters": settings.emit() | {"steps": steps},
        "max_context": settings.width,
    }
    _write(directory, card)
    return card


def add_evaluation(directory: Path, measured: Mapping[str, Any]) -> None:
    """Put a measurement (:meth:`Measurement.emit`) on the card, if there is one.

    ``after_context`` holds the slices of another measurement, after contexts of different length, where there is one.
    """
    path = directory / CARD
    if not path.exists():
        return
    card = json.loads(path.read_text())
    contexts = [found for found in measured.get("after_context", ()) if found["slice"] != "all"]
    card["tau"] = {found["slice"]: round(found["tau"]["value"], 3) for found in [*measured["slices"], *contexts]}
    card["evaluation"] = dict(measured)
    _write(directory, card)


def _write(directory: Path, card: Mapping[str, Any]) -> None:
    part = directory / f"{CARD}.part"
    part.write_text(json.dumps({k: v for k, v in card.items() if v is not None}, indent=2) + "\n")
    part.replace(directory / CARD)
