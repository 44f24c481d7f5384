"""Drafters on disk: ``config.json`` and ``model.safetensors`` in bf16, as z-lab writes them and engines read them.

Engines skip names they do not know and do not miss those that are not there: such a drafter loads, and is never
accepted. Here names and shapes are checked both ways, on writing and on reading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from ..errors import InvalidDrafter
from .config import DraftConfig
from .model import DFlash

WEIGHTS = "model.safetensors"


def shapes(config: DraftConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor that a drafter of this config has, and its shape."""
    with torch.device("meta"):
        drafter = DFlash(config)
    return {name: tuple(tensor.shape) for name, tensor in drafter.state_dict().items()}


def save(drafter: DFlash, directory: Path) -> None:
    """Write a drafter; the files appear whole or not at all.

    Raises:
        InvalidDrafter: its weights are not those of its config.
    """
    from safetensors.torch import save_file

    weights = {
        name: tensor.detach().to("cpu", torch.bfloat16, copy=True).contiguous()
        for name, tensor in drafter.state_dict().items()
    }
    check(drafter.config, {name: tuple(tensor.shape) for name, tensor in weights.items()})
    directory.mkdir(parents=True, exist_ok=True)
    partial = directory / f"{WEIGHTS}.partial"
    save_file(weights, partial, metadata={"format": "pt"})
    partial.replace(directory / WEIGHTS)
    written = directory / "config.json.partial"
    written.write_text(json.dumps(drafter.config.emit(), indent=2) + "\n")
    written.replace(directory / "config.json")


def load(directory: Path, *, dtype: torch.dtype = torch.bfloat16, device: str | torch.device = "cpu") -> DFlash:
    """Read a drafter, in evaluation mode.

    Args:
        directory: with ``config.json`` and ``model.safetensors``.
        dtype: of the weights in memory.
        device: where they go.

    Raises:
        InvalidDrafter: a file is missing or unreadable, a tensor is missing, unexpected or of another shape.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    config = DraftConfig.read(directory)
    try:
        weights: dict[str, Tensor] = load_file(directory / WEIGHTS)
    except (OSError, SafetensorError) as error:
        said = (error.strerror if isinstance(error, OSError) else None) or "it is no whole safetensors file"
        raise InvalidDrafter(f"No drafter can be read in {directory}", why=f"{WEIGHTS}: {said}") from None
    check(config, {name: tuple(tensor.shape) for name, tensor in weights.items()})
    drafter = DFlash(config)
    drafter.load_state_dict(weights)
    return drafter.to(device=device, dtype=dtype).eval()


def check(config: DraftConfig, found: Mapping[str, tuple[int, ...]]) -> None:
    """Compare names and shapes with those of the config, both ways.

    Raises:
        InvalidDrafter: names each tensor that is missing, unexpected or of another shape.
    """
    expected = shapes(config)
    wrong = [f"{name} is missing" for name in sorted(expected.keys() - found.keys())]
    wrong += [f"{name} is unexpected" for name in sorted(found.keys() - expected.keys())]
    wrong += [
        f"{name} is {list(found[name])}, not {list(expected[name])}"
        for name in sorted(expected.keys() & found.keys())
        if found[name] != expected[name]
    ]
    if wrong:
        raise InvalidDrafter(
            "The drafter's tensors are not those of its config.json",
            why="; ".join(wrong[:8]) + (f"; and {len(wrong) - 8} more" if len(wrong) > 8 else ""),
            details={"tensors": wrong},
        )
