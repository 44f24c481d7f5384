"""What an adapter's files say, and whether it fits."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.errors import AdapterUnfit, WeightsUnreadable
from outrider.models.adapter import check, read_adapter, refuse
from outrider.spec.facts import ModelFacts
from tests.engines.tiny_lora import write_adapter

BASE = ModelFacts(
    format="safetensors", architecture="llama", source="the base", layers=4, hidden_size=128, ffn_size=256, heads=2,
    kv_heads=1, head_dim=64,
)  # fmt: skip


def test_a_right_one(tmp_path: Path) -> None:
    facts = read_adapter(write_adapter(tmp_path, hidden=128, writes=128, rank=4))
    assert (facts.rank, facts.targets, facts.kind) == (4, ("q_proj",), "LORA")
    assert facts.base == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert check(facts, BASE) == []


def test_the_largest_rank_of_a_pattern_counts(tmp_path: Path) -> None:
    directory = write_adapter(tmp_path, hidden=128, writes=128, config={"rank_pattern": {"q_proj": 32}})
    assert read_adapter(directory).rank == 32


@pytest.mark.parametrize(
    ("module", "hidden", "writes", "said"),
    [
        ("q_proj", 64, 128, "q_proj: lora_A is [4, 64], the base's width there is 128"),
        ("k_proj", 128, 128, "k_proj: lora_B is [128, 4], the base's width there is 64"),
        ("o_proj", 128, 64, "o_proj: lora_B is [64, 4], the base's width there is 128"),
    ],
)
def test_widths_are_the_bases(tmp_path: Path, module: str, hidden: int, writes: int, said: str) -> None:
    facts = read_adapter(write_adapter(tmp_path, hidden=hidden, writes=writes, module=module))
    assert check(facts, BASE) == [said]


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    config = {"peft_type": "LOHA", "use_dora": True, "r": 1024}
    facts = read_adapter(write_adapter(tmp_path, hidden=128, writes=128, layers=6, config=config))
    with pytest.raises(AdapterUnfit) as caught:
        refuse(facts, "polite", BASE)
    assert caught.value.details["findings"] == [
        "its peft_type is LOHA, only LORA is served",
        "it is a DoRA adapter, whose magnitudes no engine here applies",
        "its rank 1024 is not between 1 and 512",
        "it changes layer 5, the base has 4 (0 to 3)",
        "q_proj: its factors are of rank 4, adapter_config.json says 1024",
    ]
    assert "HuggingFaceTB/SmolLM2-135M-Instruct" in caught.value.remedy


def test_factors_must_go_together(tmp_path: Path) -> None:
    facts = read_adapter(write_adapter(tmp_path, hidden=128, writes=128, layers=1))
    (a, b) = sorted(facts.tensors)
    alone = replace(facts, tensors={a: facts.tensors[a]})
    assert check(alone, BASE) == ["q_proj: it has lora_A alone"]
    crossed = replace(facts, tensors={a: facts.tensors[a], b: facts.tensors[a]})
    assert "cannot be multiplied" in check(crossed, BASE)[0]


def test_what_is_no_adapter(tmp_path: Path) -> None:
    with pytest.raises(WeightsUnreadable, match="adapter_config"):
        read_adapter(tmp_path)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 8}))
    (tmp_path / "adapter_model.bin").write_bytes(b"pickle")
    with pytest.raises(AdapterUnfit, match=r"no adapter_model\.safetensors"):
        read_adapter(tmp_path)


def test_factors_of_another_rank_than_the_config_says(tmp_path: Path) -> None:
    """An engine scales by the config's: these would count for half."""
    facts = read_adapter(write_adapter(tmp_path, hidden=128, writes=128, rank=4, config={"r": 8}))
    assert check(facts, BASE) == ["q_proj: its factors are of rank 4, adapter_config.json says 8"]
    pattern = {"r": 8, "rank_pattern": {"q_proj": 4}}
    assert check(read_adapter(write_adapter(tmp_path, hidden=128, writes=128, rank=4, config=pattern)), BASE) == []


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"lora_bias": True}, "lora_bias"),
        ({"modules_to_save": ["lm_head", "embed_tokens"]}, "modules_to_save: lm_head, embed_tokens"),
        ({"layer_replication": [[0, 2], [1, 3]]}, "layer_replication"),
        ({"init_lora_weights": "pissa_niter_4"}, "init_lora_weights is pissa_niter_4"),
        ({"alora_invocation_tokens": [1]}, "aLoRA"),
    ],
)
def test_more_than_a_plain_lora_is_refused_before_an_engine_does(
    tmp_path: Path, config: dict[str, object], said: str
) -> None:
    [found] = check(read_adapter(write_adapter(tmp_path, hidden=128, writes=128, config=config)), BASE)
    assert said in found


def test_what_changes_nothing_is_taken(tmp_path: Path) -> None:
    config: dict[str, object] = {
        "init_lora_weights": "gaussian",
        "modules_to_save": None,
        "use_dora": False,
        "rank_pattern": {},
    }
    assert check(read_adapter(write_adapter(tmp_path, hidden=128, writes=128, config=config)), BASE) == []


def test_a_rank_pattern_that_is_none_tells_nothing(tmp_path: Path) -> None:
    facts = read_adapter(write_adapter(tmp_path, hidden=128, writes=128, rank=4, config={"rank_pattern": [32]}))
    assert facts.rank == 4 and check(facts, BASE) == []
