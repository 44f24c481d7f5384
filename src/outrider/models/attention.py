"""Kinds of attention and experts, as ``config.json`` writes them. What a family writes otherwise stays unknown.

Names are those of transformers' configuration classes (https://huggingface.co/docs/transformers).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_LINEAR = ("linear_attention", "mamba", "mamba2", "recurrent")
_WINDOW = ("sliding_attention", "chunked_attention")


def attention(config: Mapping[str, Any]) -> dict[str, int | None]:
    """Facts for :class:`outrider.spec.facts.ModelFacts`, by field."""
    experts = _whole(config, "n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
    return {
        "kv_lora_rank": _whole(config, "kv_lora_rank"),
        "rope_head_dim": _whole(config, "qk_rope_head_dim"),
        "index_head_dim": _whole(config, "index_head_dim"),
        "experts": experts,
        "experts_per_token": _whole(config, "num_experts_per_tok", "moe_top_k") if experts else None,
        "shared_experts": _whole(config, "n_shared_experts") if experts else None,
        "expert_ffn_size": _whole(config, "moe_intermediate_size") if experts else None,
        "dense_layers": _whole(config, "first_k_dense_replace") if experts else None,
        "mtp_layers": _whole(config, "num_nextn_predict_layers", "mtp_num_hidden_layers"),
        **_layers(config),
    }


def _layers(config: Mapping[str, Any]) -> dict[str, int | None]:
    kinds = _kinds(config)
    window = _whole(config, "sliding_window", "attention_chunk_size")
    if config.get("use_sliding_window") is False:
        window = None
    windowed = sum(kind in _WINDOW for kind in kinds) if kinds else None
    if not kinds and window is not None:
        windowed = _every(config, "sliding_window_pattern")
    linear = sum(kind in _LINEAR for kind in kinds) if kinds else None
    plain = sum(kind in ("mlp", "moe") for kind in kinds) if kinds else None
    return {
        "window": window if windowed != 0 else None,
        "window_layers": windowed or None,
        "linear_layers": linear or None,
        "linear_state": _state(config) if linear else None,
        "plain_layers": plain or None,
    }


def _kinds(config: Mapping[str, Any]) -> list[str]:
    """The kind of each layer; empty: the file does not list them."""
    listed = config.get("layer_types") or config.get("layers_block_type")
    if isinstance(listed, list) and all(isinstance(kind, str) for kind in listed):
        return listed
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        names = {"M": "mamba", "*": "full_attention", "-": "mlp", "E": "moe"}
        return [names.get(letter, "full_attention") for letter in pattern]
    layers, interval = _whole(config, "num_hidden_layers"), _whole(config, "full_attention_interval")
    if layers and interval:
        return ["linear_attention" if (at + 1) % interval else "full_attention" for at in range(layers)]
    return []


def _every(config: Mapping[str, Any], name: str) -> int | None:
    """Layers with a window where each ``name``-th has none; all where the file names no pattern."""
    layers, pattern = _whole(config, "num_hidden_layers"), _whole(config, name)
    return layers if pattern is None or layers is None else layers - layers // pattern


def _state(config: Mapping[str, Any]) -> int | None:
    """Numbers that a linear layer keeps: a matrix a head, and the last inputs of its convolution."""
    values, value_dim = _whole(config, "linear_num_value_heads"), _whole(config, "linear_value_head_dim")
    keys, key_dim = _whole(config, "linear_num_key_heads"), _whole(config, "linear_key_head_dim")
    if values and value_dim and keys and key_dim:
        kernel = _whole(config, "linear_conv_kernel_dim") or 1
        return values * value_dim * key_dim + (kernel - 1) * (2 * keys * key_dim + values * value_dim)
    heads, dim = _whole(config, "mamba_num_heads"), _whole(config, "mamba_head_dim")
    state = _whole(config, "ssm_state_size", "mamba_d_state")
    if heads and dim and state:
        groups, kernel = _whole(config, "n_groups") or 1, _whole(config, "conv_kernel", "mamba_d_conv") or 1
        return heads * dim * state + (kernel - 1) * (heads * dim + 2 * groups * state)
    return None


def _whole(config: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
