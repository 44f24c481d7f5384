"""A drafter in speculators' format and back: another ``config.json`` around the same tensors.

speculators counts layers by the one that reads a state, z-lab by the one whose output it is: one more.

Source: vllm-project/speculators 0.9.0 ``convert/dflash/converter.py``; vLLM
``transformers_utils/configs/speculators/algos.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.drafting.layout import layout_of, read_layout, read_weights, write_directory
from outrider.errors import DrafterUnfit
from outrider.models.safetensors import read_object

VERSION = "0.9.0"
"""The release of speculators whose format is written."""
_INNER = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    *("head_dim", "vocab_size", "rms_norm_eps", "rope_theta", "rope_scaling", "rope_parameters"),
    *("max_position_embeddings", "layer_types", "sliding_window", "attention_bias", "hidden_act"),
)
"""Fields of z-lab's ``config.json`` that describe the blocks; speculators nests them."""


def to_speculators(config: Mapping[str, Any], *, verifier: str, verifier_architecture: str) -> dict[str, Any]:
    """speculators' ``config.json`` of a DFlash in z-lab's format.

    Args:
        verifier: name or path of the target.
        verifier_architecture: ``architectures[0]`` of the target.

    Raises:
        WeightsUnreadable: the config lacks a field. DrafterUnfit: it is a DFlash 2, which speculators stores otherwise.
    """
    layout = layout_of(config)
    if layout.second:
        raise DrafterUnfit(
            "A DFlash 2 has no speculators format here", remedy="Export it as gguf, or serve it as it is."
        )
    return {
        "speculators_model_type": "dflash",
        "speculators_version": VERSION,
        "architectures": ["DFlashDraftModel"],
        "block_size": layout.block_size,
        "draft_vocab_size": layout.vocab,
        "target_hidden_size": layout.hidden,
        "aux_hidden_state_layer_ids": [layer + 1 for layer in layout.taps],
        "mask_token_id": layout.mask_token_id,
        "sliding_window_non_causal": config.get("is_causal") is False,
        "sample_from_anchor": False,
        "dtype": config.get("dtype", "bfloat16"),
        "transformer_layer_config": {"model_type": "qwen3"} | {k: config[k] for k in _INNER if k in config},
        "speculators_config": {
            "algorithm": "dflash",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": layout.block_size - 1}],
            "verifier": {"name_or_path": verifier, "architectures": [verifier_architecture]},
        },
    }


def from_speculators(config: Mapping[str, Any], *, target_layers: int) -> dict[str, Any]:
    """z-lab's ``config.json`` of a DFlash in speculators' format.

    Args:
        target_layers: of the target, which speculators does not write down.

    Raises:
        DrafterUnfit: no DFlash of the whole vocabulary. WeightsUnreadable: a field is missing.
    """
    inner = config.get("transformer_layer_config")
    inner = dict(inner) if isinstance(inner, dict) else {}
    if config.get("speculators_model_type") != "dflash" or config.get("draft_vocab_size") != inner.get("vocab_size"):
        raise DrafterUnfit(
            "It cannot be converted to z-lab's format",
            why="only a DFlash that drafts from its target's whole vocabulary has one",
            remedy="Serve it as it is.",
        )
    made = {
        "architectures": ["DFlashDraftModel"],
        **{key: inner[key] for key in _INNER if key in inner},
        "model_type": "qwen3",
        "num_target_layers": target_layers,
        "block_size": config.get("block_size"),
        "dtype": config.get("dtype", "bfloat16"),
        "dflash_config": {
            "mask_token_id": config.get("mask_token_id"),
            "target_layer_ids": [layer - 1 for layer in config.get("aux_hidden_state_layer_ids") or ()],
        },
    }
    if config.get("sliding_window_non_causal"):
        made["is_causal"] = False
    layout_of(made)
    return made


def export_speculators(source: Path, target: Path, *, verifier: str, verifier_architecture: str) -> Path:
    """Write a drafter's directory in speculators' format. Raises what :func:`to_speculators` and reading raise."""
    layout = read_layout(source)
    tensors = read_weights(source, layout)
    config = to_speculators(layout.config, verifier=verifier, verifier_architecture=verifier_architecture)
    write_directory(target, config, tensors)
    return target


def import_speculators(source: Path, target: Path, *, target_layers: int) -> Path:
    """Write a speculators directory in z-lab's format. Raises what :func:`from_speculators` and reading raise."""
    made = from_speculators(read_object(source / "config.json"), target_layers=target_layers)
    write_directory(target, made, read_weights(source, layout_of(made)))
    return target
