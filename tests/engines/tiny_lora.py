"""A LoRA adapter of random numbers, written by hand in PEFT's layout: safetensors need no library to be written."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_tensors(path: Path, tensors: Mapping[str, tuple[Sequence[int], Sequence[float]]]) -> None:
    """Write float32 tensors, (shape, numbers) by name."""
    header, data = {}, b""
    for name, (shape, numbers) in tensors.items():
        packed = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def write_adapter(
    directory: Path,
    *,
    hidden: int,
    writes: int,
    layers: int = 2,
    rank: int = 4,
    scale: float = 0.5,
    seed: int = 1,
    module: str = "q_proj",
    config: Mapping[str, object] | None = None,
) -> Path:
    """An adapter on one module of the first layers.

    Args:
        hidden: width that the module reads.
        writes: width that it writes.
        scale: of the random numbers; large enough, and every answer is another.
        config: entries of ``adapter_config.json`` over the usual ones.
    """
    draw, tensors = random.Random(seed), {}
    for layer in range(layers):
        name = f"base_model.model.model.layers.{layer}.self_attn.{module}"
        for side, shape in (("A", (rank, hidden)), ("B", (writes, rank))):
            numbers = [draw.gauss(0, scale) for _ in range(shape[0] * shape[1])]
            tensors[f"{name}.lora_{side}.weight"] = (shape, numbers)
    directory.mkdir(parents=True, exist_ok=True)
    usual = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "HuggingFaceTB/SmolLM2-135M-Instruct",
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": [module],
    }
    (directory / "adapter_config.json").write_text(json.dumps({**usual, **(config or {})}))
    write_tensors(directory / "adapter_model.safetensors", tensors)
    return directory
