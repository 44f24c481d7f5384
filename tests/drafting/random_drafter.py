"""Drafters for SmolLM2-135M-Instruct with random weights: what the formats are tried with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.drafting.layout import layout_of, write_directory

CONFIG: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "hidden_size": 576,
    "intermediate_size": 768,
    "num_hidden_layers": 2,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "num_target_layers": 30,
    "block_size": 8,
    "vocab_size": 49152,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100000.0,
    "max_position_embeddings": 8192,
    "attention_bias": False,
    "hidden_act": "silu",
    "dtype": "bfloat16",
    "dflash_config": {"mask_token_id": 5, "target_layer_ids": [1, 14, 27]},
}
"""Its mask token, ``<repo_name>`` in the tokenizer, stands in no chat."""
SECOND = {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": 32, "selector_top_k": 16}
"""What a DFlash 2 adds to ``dflash_config``."""


def config(*, second: bool = False, **changed: Any) -> dict[str, Any]:
    """The ``config.json``; ``changed`` fields replace those of :data:`CONFIG`, ``None`` removes one."""
    own = {**CONFIG["dflash_config"], **(SECOND if second else {})}
    made = {**CONFIG, "architectures": ["DFlash2DraftModel" if second else "DFlashDraftModel"], "dflash_config": own}
    return {key: value for key, value in {**made, **changed}.items() if value is not None}


def tensors(described: dict[str, Any], seed: int = 0) -> dict[str, Any]:
    """Its tensors in bf16: norms one, the others small and random."""
    import torch

    made = {}
    generator = torch.Generator().manual_seed(seed)
    for name, shape in layout_of(described).shapes.items():
        ones = len(shape) == 1
        values = torch.ones(shape) if ones else torch.randn(shape, generator=generator) * 0.02
        made[name] = values.to(torch.bfloat16)
    return made


def write(directory: Path, *, second: bool = False, **changed: Any) -> Path:
    """A drafter's directory."""
    described = config(second=second, **changed)
    write_directory(directory, described, tensors(described))
    return directory
