"""Targets and drafters small enough to test with: random, fp32, the same for the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from outrider.drafting.config import DraftConfig
from outrider.drafting.model import DFlash
from outrider.drafting.target import Target

HIDDEN, LAYERS, VOCABULARY, TAPS = 32, 6, 64, (1, 3, 4)


def target(kind: str = "qwen3", *, vocabulary: int = VOCABULARY, seed: int = 0, taps: Sequence[int] = TAPS) -> Target:
    """A Qwen3, Llama or Qwen3.5 (``hybrid``) of random weights, wide enough for its choices to differ."""
    import transformers

    torch.manual_seed(seed)
    shape: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": 64,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 512,
        "initializer_range": 0.4,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    if kind == "hybrid":
        kinds = ["linear_attention", "full_attention"] * (LAYERS // 2)
        shape |= {"layer_types": kinds, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
        shape |= {"linear_key_head_dim": 8, "linear_value_head_dim": 8}
    configs = {
        "qwen3": transformers.Qwen3Config,
        "llama": transformers.LlamaConfig,
        "hybrid": transformers.Qwen3_5TextConfig,
    }
    model = transformers.AutoModelForCausalLM.from_config(configs[kind](**shape), dtype=torch.float32)
    return Target(model, taps)


def config(**changes: Any) -> DraftConfig:
    """Two layers, blocks of four, for :func:`target`."""
    shape: dict[str, Any] = {
        "hidden_size": HIDDEN,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "num_target_layers": LAYERS,
        "vocab_size": VOCABULARY,
        "mask_token_id": VOCABULARY - 1,
        "target_layer_ids": TAPS,
        "block_size": 4,
        "rope_theta": 10_000.0,
    }
    return DraftConfig(**(shape | changes))


DFLASH2 = {"conv_kernel_size": 2, "conv_group_size": 8, "selector_rank": 6, "selector_top_k": 8}


def drafter(shape: DraftConfig | None = None, *, seed: int = 1) -> DFlash:
    """A drafter with no weight at its start value: random matrices, norms away from 1, convolutions that mix."""
    torch.manual_seed(seed)
    made = DFlash(shape or config())
    with torch.no_grad():
        for name, weight in made.named_parameters():
            weight.normal_(std=0.3)
            if "norm" in name or "base_kernel" in name:
                weight.add_(1.0)
    return made.eval()


def features(length: int, *, batch: int = 1, seed: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Random context features ``[B, S, K·H]`` and their positions."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(batch, length, len(TAPS) * HIDDEN, generator=generator)
    return states, torch.arange(length).expand(batch, -1)


def embeds(rows: int, *, batch: int = 1, seed: int = 3) -> torch.Tensor:
    """Random embeddings of block rows ``[B, R, H]``."""
    return torch.randn(batch, rows, HIDDEN, generator=torch.Generator().manual_seed(seed))
