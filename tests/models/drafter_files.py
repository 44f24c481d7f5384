"""Configs of drafters as their makers write them, and DFlash tensors small enough to write by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.engines.tiny_lora import write_tensors

ZLAB: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_target_layers": 36,
    "block_size": 16,
    "vocab_size": 151936,
    "rope_theta": 1000000,
    "max_position_embeddings": 40960,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
}
"""Qwen3-8B-DFlash-b16."""
SPECULATORS: dict[str, Any] = {
    "speculators_model_type": "dflash",
    "architectures": ["DFlashDraftModel"],
    "transformer_layer_config": {
        "hidden_size": 4096,
        "num_hidden_layers": 5,
        "vocab_size": 151936,
        "rope_theta": 1000000,
        "max_position_embeddings": 40960,
    },
    "draft_vocab_size": 151936,
    "block_size": 16,
    "target_hidden_size": 4096,
    "aux_hidden_state_layer_ids": [2, 10, 18, 26, 34],
    "mask_token_id": 151669,
    "speculators_config": {"verifier": {"name_or_path": "Qwen/Qwen3-8B"}},
}
"""The same drafter as speculators writes it."""
EAGLE3: dict[str, Any] = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "hidden_size": 4096,
    "num_hidden_layers": 1,
    "vocab_size": 128256,
    "draft_vocab_size": 32000,
    "rope_theta": 500000,
    "max_position_embeddings": 2048,
}


def write(directory: Path, config: dict[str, Any]) -> Path:
    """A directory with the config alone."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    return directory


def write_tiny(
    directory: Path, *, hidden: int, target_layers: int, vocab: int, mask: int, taps: tuple[int, ...]
) -> Path:
    """A whole DFlash drafter of one layer and zeros."""
    heads, inner = hidden // 64, 64
    write(
        directory,
        ZLAB
        | {"hidden_size": hidden, "num_hidden_layers": 1, "num_attention_heads": heads, "num_key_value_heads": heads}
        | {"head_dim": 64, "num_target_layers": target_layers, "vocab_size": vocab, "intermediate_size": inner}
        | {"block_size": 4, "dflash_config": {"mask_token_id": mask, "target_layer_ids": list(taps)}},
    )
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (hidden, len(taps) * hidden),
        "hidden_norm.weight": (hidden,),
        "norm.weight": (hidden,),
        "layers.0.input_layernorm.weight": (hidden,),
        "layers.0.post_attention_layernorm.weight": (hidden,),
        **{f"layers.0.self_attn.{name}_proj.weight": (hidden, hidden) for name in "qkvo"},
        **{f"layers.0.self_attn.{name}_norm.weight": (64,) for name in "qk"},
        **{f"layers.0.mlp.{name}_proj.weight": (inner, hidden) for name in ("gate", "up")},
        "layers.0.mlp.down_proj.weight": (hidden, inner),
    }
    sizes = {name: shape[0] * (shape[1] if len(shape) > 1 else 1) for name, shape in shapes.items()}
    write_tensors(
        directory / "model.safetensors", {name: (shape, [0.0] * sizes[name]) for name, shape in shapes.items()}
    )
    return directory
