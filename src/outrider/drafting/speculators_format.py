"""A drafter in speculators' format and back: another ``config.json`` around the same tensors.

speculators counts layers by the one that reads a state, z-lab by the one whose output it is: one more.

Source: vllm-project/speculators 0.9.0 ``convert/dflash/converter.py``; vLLM
``transformers_utils/configs/speculators/algos.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.drafting import checkpoint
from outrider.drafting.config import DraftConfig
from outrider.drafting.exporting import write_directory
from outrider.errors import DrafterUnfit, InvalidDrafter
from outrider.models.safetensors import read_object

VERSION = "0.9.0"
"""The release of speculators whose format is written."""
_INNER = (
    *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
    *("head_dim", "vocab_size", "rms_norm_eps", "rope_theta", "rope_scaling", "max_position_embeddings"),
    *("layer_types", "sliding_window", "attention_bias", "hidden_act"),
)
"""Fields of z-lab's ``config.json`` that describe the blocks; speculators nests them."""


def to_speculators(config: DraftConfig, *, verifier: str, verifier_architecture: str) -> dict[str, Any]:
    """speculators' ``config.json`` of a DFlash.

    Args:
        verifier: name or path of the target.
        verifier_architecture: ``architectures[0]`` of the target.

    Raises:
        InvalidDrafter: it is a DFlash 2, or shapes its logits: speculators has no fields for these.
    """
    if config.is_dflash2 or (config.output_multiplier, config.final_logit_softcapping) != (1.0, None):
        raise InvalidDrafter(
            "The drafter has no form in speculators' format",
            why="a DFlash 2 and a drafter that shapes its logits have none",
            remedy="Serve the directory as it is, or export it as gguf.",
        )
    written = config.emit()
    return {
        "speculators_model_type": "dflash",
        "speculators_version": VERSION,
        "architectures": ["DFlashDraftModel"],
        "block_size": config.block_size,
        "draft_vocab_size": config.vocab_size,
        "target_hidden_size": config.hidden_size,
        "aux_hidden_state_layer_ids": [layer + 1 for layer in config.target_layer_ids],
        "mask_token_id": config.mask_token_id,
        "sliding_window_non_causal": config.is_causal is False,
        "sample_from_anchor": False,
        "dtype": "bfloat16",
        "transformer_layer_config": {"model_type": "qwen3"} | {name: written[name] for name in _INNER},
        "speculators_config": {
            "algorithm": "dflash",
            "default_proposal_method": "greedy",
            "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": config.block_size - 1}],
            "verifier": {"name_or_path": verifier, "architectures": [verifier_architecture]},
        },
    }


def from_speculators(described: Mapping[str, Any], *, target_layers: int) -> DraftConfig:
    """The config of a DFlash in speculators' format.

    Args:
        target_layers: of the target, which speculators does not write down.

    Raises:
        DrafterUnfit: no DFlash of the whole vocabulary. InvalidDrafter: a field is missing or contradicts another.
    """
    inner = described.get("transformer_layer_config")
    inner = dict(inner) if isinstance(inner, dict) else {}
    whole = described.get("draft_vocab_size") in (None, inner.get("vocab_size"))
    if described.get("speculators_model_type") != "dflash" or not whole:
        raise DrafterUnfit(
            "It cannot be converted to z-lab's format",
            why="only a DFlash that drafts from its target's whole vocabulary has one",
            remedy="Serve it as it is.",
        )
    taps = described.get("aux_hidden_state_layer_ids")
    return DraftConfig.parse(
        {name: inner[name] for name in (*_INNER, "rope_parameters") if inner.get(name) is not None}
        | {
            "num_target_layers": target_layers,
            "block_size": described.get("block_size"),
            "dflash_config": {
                "mask_token_id": described.get("mask_token_id"),
                "target_layer_ids": [layer - 1 for layer in taps] if isinstance(taps, list) else None,
            },
        }
        | ({"is_causal": False} if described.get("sliding_window_non_causal") else {})
    )


def export_speculators(source: Path, target: Path, *, verifier: str, verifier_architecture: str) -> Path:
    """Write a drafter's directory in speculators' format.

    Raises:
        InvalidDrafter: its files are not whole, or as in :func:`to_speculators`. DrafterUnfit: ``target`` exists.
    """
    drafter = checkpoint.load(source)
    described = to_speculators(drafter.config, verifier=verifier, verifier_architecture=verifier_architecture)
    return write_directory(target, described, drafter.state_dict())


def import_speculators(source: Path, target: Path, *, target_layers: int) -> Path:
    """Write a speculators directory in z-lab's format.

    Raises:
        InvalidDrafter: its tensors are not its config's, or as in :func:`from_speculators`. WeightsUnreadable: a file
            is missing. DrafterUnfit: ``target`` exists.
    """
    from safetensors.torch import load_file

    config = from_speculators(read_object(source / "config.json"), target_layers=target_layers)
    weights = load_file(source / checkpoint.WEIGHTS)
    checkpoint.check(config, {name: tuple(tensor.shape) for name, tensor in weights.items()})
    return write_directory(target, config.emit(), weights)
