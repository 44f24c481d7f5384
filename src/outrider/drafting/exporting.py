"""What every export of a drafter holds to: nothing is overwritten, and what appears is whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.drafting.checkpoint import WEIGHTS
from outrider.errors import DrafterUnfit


def refuse_existing(target: Path) -> None:
    """Raises DrafterUnfit if something lies at ``target``: an export overwrites nothing."""
    if target.exists():
        raise DrafterUnfit(f"There is something at {target} already", remedy="Name another place, or move it away.")


def write_directory(target: Path, config: Mapping[str, Any], weights: Mapping[str, Any]) -> Path:
    """A directory with ``config.json`` and one safetensors file; it appears whole or not at all.

    Args:
        weights: ``torch.Tensor`` by name; they are stored as they are.

    Raises:
        DrafterUnfit: there is something at ``target`` already.
    """
    from safetensors.torch import save_file

    refuse_existing(target)
    partial = target.with_name(f"{target.name}.partial")
    partial.mkdir(parents=True)
    (partial / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, partial / WEIGHTS, {"format": "pt"})
    return partial.rename(target)
