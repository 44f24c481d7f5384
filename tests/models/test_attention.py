"""Kinds of attention and experts as configurations of real families write them, shortened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.models.attention import attention
from outrider.models.facts import read_facts

GPT_OSS = {
    "num_hidden_layers": 4, "sliding_window": 128, "num_local_experts": 32, "num_experts_per_tok": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
}  # fmt: skip
DEEPSEEK = {
    "num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 3,
    "num_nextn_predict_layers": 1,
}  # fmt: skip
QWEN_NEXT = {
    "num_hidden_layers": 48, "full_attention_interval": 4, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
    "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_conv_kernel_dim": 4,
}  # fmt: skip
NEMOTRON = {
    "num_hidden_layers": 6, "hybrid_override_pattern": "M-M*ME", "mamba_num_heads": 128, "mamba_head_dim": 64,
    "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4,
}  # fmt: skip
QWEN2 = {"num_hidden_layers": 28, "sliding_window": 131_072, "use_sliding_window": False}
MISTRAL = {"num_hidden_layers": 32, "sliding_window": 4096}
GEMMA3 = {"num_hidden_layers": 62, "sliding_window": 1024, "sliding_window_pattern": 6}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (GPT_OSS, {"window": 128, "window_layers": 2, "experts": 32, "experts_per_token": 4, "linear_layers": None}),
        (DEEPSEEK, {"kv_lora_rank": 512, "rope_head_dim": 64, "experts": 256, "dense_layers": 3, "mtp_layers": 1}),
        (QWEN_NEXT, {"linear_layers": 36, "linear_state": 32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128)}),
        (NEMOTRON, {"linear_layers": 3, "plain_layers": 2, "linear_state": 128 * 64 * 128 + 3 * (8192 + 2 * 8 * 128)}),
        (QWEN2, {"window": None, "window_layers": None, "experts": None, "kv_lora_rank": None}),
        (MISTRAL, {"window": 4096, "window_layers": 32}),
        (GEMMA3, {"window": 1024, "window_layers": 52}),
    ],
)
def test_a_family(config: dict[str, Any], expected: dict[str, Any]) -> None:
    found = attention(config)
    assert {name: found[name] for name in expected} == expected


def test_a_linear_layer_whose_state_nobody_knows_stays_unknown() -> None:
    found = attention({"num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]})
    assert found["linear_layers"] == 1 and found["linear_state"] is None


def test_nonsense_is_unknown() -> None:
    assert set(attention({"layer_types": [1, 2], "sliding_window": "wide", "num_experts": True}).values()) == {None}


def test_a_checkpoint_says_what_a_token_uses(tmp_path: Path) -> None:
    config = {"model_type": "deepseek_v3", "hidden_size": 64, "num_attention_heads": 4, **DEEPSEEK}
    (tmp_path / "config.json").write_text(json.dumps(config))
    facts = read_facts(tmp_path)
    assert facts.kv_lora_rank == 512 and facts.experts == 256
    assert facts.parameters is None and facts.active_parameters is None  # no weights to count
