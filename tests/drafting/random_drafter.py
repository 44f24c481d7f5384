"""Drafters for SmolLM2-135M-Instruct with random weights: what formats and engines are tried with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from outrider.drafting.config import DraftConfig

PLAIN = DraftConfig(
    hidden_size=576,
    intermediate_size=768,
    num_hidden_layers=2,
    num_attention_heads=9,
    num_key_value_heads=3,
    head_dim=64,
    num_target_layers=30,
    vocab_size=49152,
    mask_token_id=5,
    target_layer_ids=(1, 14, 27),
    block_size=8,
    rms_norm_eps=1e-5,
    rope_theta=100_000.0,
    max_position_embeddings=8192,
)
"""Its mask token, ``<repo_name>`` in the tokenizer, stands in no chat."""
SECOND = replace(PLAIN, conv_kernel_size=2, conv_group_size=16, selector_rank=32, selector_top_k=16)
"""The same as a DFlash 2."""


def write(directory: Path, config: DraftConfig = PLAIN, **changed: Any) -> Path:
    """A drafter's directory; ``changed`` fields replace those of ``config``."""
    import torch

    from outrider.drafting.checkpoint import save
    from outrider.drafting.model import DFlash

    with torch.random.fork_rng():
        torch.manual_seed(0)
        save(DFlash(replace(config, **changed)), directory)
    return directory
