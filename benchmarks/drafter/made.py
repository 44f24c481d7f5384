"""What ``scripts/drafter`` made, in figures: counts of its data, and what each drafter is. Weights stay where they are.

    python -m benchmarks.drafter.made WORK --gguf FILE

``WORK`` is its work directory, with ``data``, ``dflash`` and ``dflash2``; ``FILE`` is the target's GGUF, whose header
names its licence. Writes ``results/made.json``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.drafting.card import read_card
from outrider.models.safetensors import read_object, read_tensors

RESULT = Path(__file__).with_name("results") / "made.json"
_WEIGHTS = "model.safetensors"


def drafter(directory: Path) -> dict[str, Any]:
    """A drafter's size, digest, shape and training, without its evaluation."""
    weights, card = directory / _WEIGHTS, read_card(directory)
    config = read_object(directory / "config.json")
    return {
        "name": card.name,
        "kind": config["architectures"][0],
        "bytes": weights.stat().st_size,
        "sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
        "parameters": sum(tensor.elements for tensor in read_tensors(weights).values()),
        "selector_rank": card.hyperparameters["shape"]["selector_rank"],
        "steps": card.hyperparameters["steps"],
        "data": card.data.manifest,
    }


def data(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Counts of a data set, and how it was asked for."""
    settings, split = manifest["settings"], manifest["templates"]
    counts = {name: manifest[name] for name in ("rows", "answer_tokens")}
    return counts | {
        "manifest": manifest["sha256"],
        "shards": manifest.get("shards", 1),
        "templates": {name: len(ids) for name, ids in split.items()},
        "operations": len({name.partition("/")[0] for ids in split.values() for name in ids}),
        "records": {name: len({one.partition("/")[2] for one in ids}) for name, ids in split.items()},
        "per_template": settings["per_template"],
        "held_out_per_template": settings["held_out_per_template"],
        "temperature": settings["answer"]["temperature"],
        "limit": settings["limit"],
        "minutes": settings["minutes"],
    }


def licence(gguf: Path) -> str | None:
    """What a GGUF's header names as its licence."""
    from gguf import GGUFReader

    field = GGUFReader(gguf).get_field("general.license")
    return None if field is None else str(field.contents())


def main() -> None:
    """Read the work directory and write the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--gguf", type=Path, required=True)
    options = parser.parse_args()
    manifest = read_object(options.work / "data" / "manifest.json")
    found = {
        "target": manifest["target"] | {"license": licence(options.gguf)},
        "data": data(manifest),
        "drafters": {name: drafter(options.work / name) for name in ("dflash", "dflash2")},
    }
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
