"""The drafter's config: read strictly, written whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.drafting.config import DraftConfig, default_layer_ids
from outrider.errors import InvalidDrafter

from . import tiny

#: As released: Qwen3-8B-DFlash-b16.
QWEN3_8B: dict[str, Any] = {
    "architectures": ["DFlashDraftModel"],
    "auto_map": {"AutoModel": "dflash.DFlashDraftModel"},
    "attention_bias": False,
    "attention_dropout": 0.0,
    "block_size": 16,
    "dflash_config": {"mask_token_id": 151669, "target_layer_ids": [1, 9, 17, 25, 33]},
    "dtype": "bfloat16",
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "max_position_embeddings": 40960,
    "model_type": "qwen3",
    "num_attention_heads": 32,
    "num_hidden_layers": 5,
    "num_key_value_heads": 8,
    "num_target_layers": 36,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "vocab_size": 151936,
}


@pytest.mark.parametrize(
    ("target", "draft", "ids"),
    [
        (36, 5, (1, 9, 17, 25, 33)),
        (40, 5, (1, 10, 19, 28, 37)),
        (64, 5, (1, 16, 31, 46, 61)),
        (30, 1, (15,)),
        (30, 2, (1, 27)),
        (9, 3, (1, 4, 6)),  # 3.5 is rounded to 4, as Python does
        (7, 3, (1, 2, 4)),  # 2.5 to 2
    ],
)
def test_default_layers(target: int, draft: int, ids: tuple[int, ...]) -> None:
    assert default_layer_ids(target, draft) == ids


def test_a_released_config_is_read() -> None:
    config = DraftConfig.parse(QWEN3_8B)
    assert (config.block_size, config.mask_token_id, config.rope_theta) == (16, 151669, 1e6)
    assert config.target_layer_ids == (1, 9, 17, 25, 33)
    assert not config.is_dflash2
    assert [config.causal(0), config.window(0)] == [False, None]


def test_the_block_size_may_be_inside() -> None:
    inside = {k: v for k, v in QWEN3_8B.items() if k != "block_size"}
    inside["dflash_config"] = QWEN3_8B["dflash_config"] | {"block_size": 8}
    assert DraftConfig.parse(inside).block_size == 8


def test_layers_default_where_none_are_named() -> None:
    unnamed = QWEN3_8B | {"dflash_config": {"mask_token_id": 5}}
    assert DraftConfig.parse(unnamed).target_layer_ids == (1, 9, 17, 25, 33)


@pytest.mark.parametrize(
    ("changes", "causal"), [({}, True), ({"is_causal": False}, False), ({"is_causal": True}, True)]
)
def test_sliding_layers_are_causal_unless_told_otherwise(changes: dict[str, Any], causal: bool) -> None:
    layers = {"layer_types": ["sliding_attention"] * 4 + ["full_attention"], "sliding_window": 2048}
    config = DraftConfig.parse(QWEN3_8B | layers | changes)
    assert [config.window(i) for i in range(5)] == [2048] * 4 + [None]
    assert config.causal(0) is causal
    assert config.causal(4) is bool(changes.get("is_causal"))


def test_vllm_says_causal_elsewhere() -> None:
    layers = {"layer_types": ["sliding_attention"] * 5, "sliding_window": 2048}
    inner = QWEN3_8B["dflash_config"] | {"causal": False}
    assert DraftConfig.parse(QWEN3_8B | layers | {"dflash_config": inner}).causal(0) is False


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_theta": 5e5, "rope_scaling": {"type": "yarn", "factor": 4.0}},
        {"rope_theta": None, "rope_parameters": {"rope_theta": 5e5, "rope_type": "yarn", "factor": 4.0}},
    ],
)
def test_rope_is_read_in_both_spellings(rope: dict[str, Any]) -> None:
    config = DraftConfig.parse(QWEN3_8B | rope)
    assert (config.rope_theta, config.rope_scaling) == (5e5, {"rope_type": "yarn", "factor": 4.0})


@pytest.mark.parametrize(
    "shape",
    [
        tiny.config(),
        tiny.config(**tiny.DFLASH2, block_size=8),
        tiny.config(layer_types=("sliding_attention", "full_attention"), sliding_window=5, is_causal=False),
        tiny.config(layer_types=("sliding_attention", "full_attention"), sliding_window=5),
        tiny.config(rope_scaling={"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64}),
        tiny.config(output_multiplier=0.5, final_logit_softcapping=30.0, input_embedding_scale=5.7),
    ],
)
def test_what_is_written_is_read_back(shape: DraftConfig) -> None:
    assert DraftConfig.parse(json.loads(json.dumps(shape.emit()))) == shape


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hiden_size": 4096}, "hiden_size"),
        ({"dflash_config": QWEN3_8B["dflash_config"] | {"masktoken": 1}}, "dflash_config.masktoken"),
        ({"dflash_config": QWEN3_8B["dflash_config"] | {"projector_type": "domino"}}, "dflash_config.projector_type"),
        ({"dflash_config": QWEN3_8B["dflash_config"] | {"sample_from_anchor": True}}, "DSpark"),
        ({"dflash_config": {"target_layer_ids": [1]}}, "mask_token_id"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"hidden_size": None}, "hidden_size"),
        ({"dflash_config": {"mask_token_id": 151936}}, "mask_token_id is a row"),
        ({"dflash_config": QWEN3_8B["dflash_config"] | {"target_layer_ids": [1, 36]}}, "layers of the target"),
        ({"dflash_config": QWEN3_8B["dflash_config"] | {"target_layer_ids": [9, 1]}}, "ascend"),
        ({"dflash_config": QWEN3_8B["dflash_config"] | {"selector_rank": 8}}, "DFlash 2 has all of"),
        ({"layer_types": ["full_attention"]}, "one entry a layer"),
        ({"layer_types": ["sliding_attention"] * 5}, "sliding_window"),
        ({"rope_scaling": {"type": "default", "mrope_section": [1, 2, 3]}}, "M-RoPE"),
        ({"num_key_value_heads": 5}, "divides the heads"),
    ],
)
def test_what_cannot_be_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidDrafter) as refused:
        DraftConfig.parse({k: v for k, v in (QWEN3_8B | changes).items() if v is not None})
    assert said in str(refused.value)


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_no_config_is_an_error_of_one_line(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(InvalidDrafter, match="No drafter can be read"):
        DraftConfig.read(tmp_path)
