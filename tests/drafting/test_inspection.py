from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.drafting.inspection import inspect
from outrider.models.drafter_check import Target
from outrider.models.facts import read_facts
from outrider.models.tokenizer import TokenizerFacts
from tests.models.real import smollm

from .random_drafter import PLAIN, SECOND, write

TOKENIZER = TokenizerFacts(
    "tokenizer.json", size=49152, special={"eos": 2, "bos": 1}, ids=frozenset(range(49152)), named={5: "<mask>"}
)


def target() -> Target:
    return Target(read_facts(smollm()), TOKENIZER)


def changed(tmp_path: Path, top: dict[str, Any], own: dict[str, Any]) -> Path:
    """A drafter whose config.json says something else."""
    directory = write(tmp_path / "drafter")
    config = json.loads((directory / "config.json").read_text())
    config = {**config, **top, "dflash_config": {**config["dflash_config"], **own}}
    (directory / "config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
    return directory


def test_a_good_drafter_has_no_findings_and_its_engines(tmp_path: Path) -> None:
    found = inspect(write(tmp_path / "drafter"), target())
    assert found.findings == []
    assert [str(loader) for loader in found.loaders] == [
        "SGLang 0.5.15.post1",
        "vLLM 0.24.0",
        "llama.cpp 2026.10.11549",
    ]


def test_a_dflash_2_is_for_newer_engines(tmp_path: Path) -> None:
    found = inspect(write(tmp_path / "drafter", SECOND), target())
    assert found.facts.kind == "dflash2"
    assert [str(loader) for loader in found.loaders] == ["SGLang 0.5.23", "vLLM 0.33.0", "llama.cpp 2026.10.11549"]


@pytest.mark.parametrize(
    ("top", "own", "field", "severity", "said"),
    [
        ({}, {"target_layer_ids": [2, 15, 28]}, "layer_ids", "warn", "moved by one"),
        ({}, {"target_layer_ids": [1, 14, 30]}, "layer_ids", "refuse", "leave the target's 30 layers"),
        ({}, {"mask_token_id": 2}, "mask_id", "refuse", "the target's eos token"),
        ({}, {"mask_token_id": 100}, "mask_id", "warn", "stands for a token"),
        ({}, {"mask_token_id": 60000}, "mask_id", "refuse", "none of the target's"),
        ({"rope_scaling": {"mrope_section": [8, 12, 12]}}, {}, "rope", "warn", "M-RoPE"),
        ({"rope_theta": None, "rope_scaling": None}, {}, "rope", "warn", "names no rope_theta"),
        ({"sliding_window": 512, "layer_types": None}, {}, "window", "warn", "served without one"),
        ({"layer_types": ["sliding_attention"] * 2}, {}, "window", "refuse", "how far they look"),
        ({"quantization_config": {"quant_method": "gptq"}}, {}, "quantisation", "warn", "gptq"),
        ({"hidden_size": 512}, {}, "hidden_size", "refuse", "states of 512 numbers, the target's have 576"),
        ({"vocab_size": 32000}, {}, "vocabulary", "refuse", "counts on 32,000 tokens"),
        ({"num_hidden_layers": 3}, {}, "tensors", "refuse", "lack layers.2"),
        ({"block_sise": 4}, {}, "config", "warn", "block_sise"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, top: dict[str, Any], own: dict[str, Any], field: str, severity: str, said: str
) -> None:
    found = inspect(changed(tmp_path, top, own), target())
    named = {finding.field: finding for finding in found.findings}
    assert field in named and said in named[field].what
    assert named[field].severity == severity
    assert named[field].remedy and named[field].source


def test_a_shape_is_told_without_a_target(tmp_path: Path) -> None:
    found = inspect(write(tmp_path / "drafter"), None)
    assert found.target is None and found.findings == []
    assert found.facts.parameters is not None and found.facts.taps == PLAIN.target_layer_ids
