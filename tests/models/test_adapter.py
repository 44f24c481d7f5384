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
