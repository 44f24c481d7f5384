"""What a request caches, by kind of attention, against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from outrider.recipes.kv import kv_bytes, kv_element
from outrider.spec.facts import ModelFacts


def facts(**given: Any) -> ModelFacts:
    return ModelFacts(format="safetensors", architecture="x", source="a test", **given)


DENSE = facts(layers=32, kv_heads=8, head_dim=128)


def test_a_dense_model_caches_two_vectors_a_head_and_layer() -> None:
    assert kv_bytes(DENSE, 1) == 131_072  # Llama-3.1-8B: 128 KiB a token
    assert kv_bytes(DENSE, 1000, requests=3) == 3 * 1000 * 131_072
    assert kv_bytes(DENSE, 1, element=1) == 65_536


@pytest.mark.parametrize(("split", "each"), [(1, 131_072), (4, 32_768), (8, 16_384), (16, 16_384)])
def test_heads_are_divided_and_repeated_beyond_their_number(split: int, each: int) -> None:
    assert kv_bytes(DENSE, 1, split=split) == each


def test_latent_attention_caches_one_vector_that_nobody_divides() -> None:
    model = facts(layers=61, heads=128, kv_lora_rank=512, rope_head_dim=64)
    assert kv_bytes(model, 1) == kv_bytes(model, 1, split=8) == 61 * 576 * 2  # DeepSeek-V3: 70,272 bytes
    indexed = model.model_copy(update={"index_head_dim": 128})
    assert kv_bytes(indexed, 1) == 61 * (576 + 128) * 2


def test_layers_with_a_window_stop_growing() -> None:
    model = facts(layers=36, kv_heads=8, head_dim=64, window=128, window_layers=18)
    short, long = kv_bytes(model, 128), kv_bytes(model, 10_128)
    assert short == 36 * 2 * 8 * 64 * 2 * 128
    assert long is not None and long - short == 18 * 2 * 8 * 64 * 2 * 10_000


def test_windows_may_have_heads_of_their_own() -> None:
    model = facts(
        layers=6, kv_heads=2, head_dim=512, window=1024, window_layers=5, window_kv_heads=8, window_head_dim=256
    )
    assert kv_bytes(model, 1024) == 2 * 2 * 1024 * (2 * 512 + 5 * 8 * 256)


def test_linear_layers_keep_a_state_whatever_the_length() -> None:
    model = facts(layers=48, kv_heads=2, head_dim=256, linear_layers=36, linear_state=1000)
    one, two = kv_bytes(model, 1), kv_bytes(model, 2)
    assert one == 12 * 2 * 2 * 256 * 2 + 36 * 1000 * 4
    assert two is not None and two - one == 12 * 2 * 2 * 256 * 2
    assert kv_bytes(model, 1, requests=5) == 5 * one


@pytest.mark.parametrize(
    "unknown",
    [
        facts(kv_heads=8, head_dim=128),
        facts(layers=32, head_dim=128),
        facts(layers=32, kv_lora_rank=512),
        facts(layers=32, kv_heads=8, head_dim=128, window=4096),
        facts(layers=32, kv_heads=8, head_dim=128, linear_layers=24),
    ],
)
def test_what_is_not_known_is_not_guessed(unknown: ModelFacts) -> None:
    assert kv_bytes(unknown, 1000) is None


@pytest.mark.parametrize(("kind", "size"), [(None, 2), ("auto", 2), ("fp8", 1), ("fp8_e4m3", 1)])
def test_the_type_of_the_cache(kind: str | None, size: int) -> None:
    assert kv_element(kind) == size
