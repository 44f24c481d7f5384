"""What is wrong with a drafter is found, named and sourced; a right one passes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from outrider.models.drafter import DrafterFacts, read_drafter
from outrider.models.drafter_check import Finding, Target, check, refusals
from outrider.models.tokenizer import TokenizerFacts
from outrider.spec.facts import ModelFacts
from tests.models.drafter_files import EAGLE3, SPECULATORS, ZLAB, write, write_tiny

TOKENIZER = TokenizerFacts(
    source="tokenizer of Qwen3-8B",
    size=151669,
    special={"eos": 151645, "pad": 151643},
    ids=frozenset(range(151669)),
    modes=("thinking", "non-thinking"),
)
FACTS = ModelFacts(
    format="safetensors", architecture="qwen3", source="config.json of Qwen3-8B", layers=36, hidden_size=4096,
    vocab_size=151936, context_length=40960,
)  # fmt: skip
TARGET = Target(FACTS, TOKENIZER)


def found(tmp_path: Path, config: dict[str, Any], target: Target = TARGET, **changes: Any) -> list[Finding]:
    facts = replace(read_drafter(write(tmp_path, config)), **changes)
    return check(facts, target)


def changed(**own: Any) -> dict[str, Any]:
    """The z-lab config with other entries; those of ``dflash_config`` by their names."""
    inner = {name: value for name, value in own.items() if name in ("mask_token_id", "target_layer_ids")}
    outer = {name: value for name, value in own.items() if name not in inner}
    return ZLAB | outer | {"dflash_config": ZLAB["dflash_config"] | inner}


@pytest.mark.parametrize("config", [ZLAB, SPECULATORS])
def test_a_right_drafter_has_nothing_wrong(tmp_path: Path, config: dict[str, Any]) -> None:
    assert found(tmp_path, config) == []


SLIDING = {"layer_types": ["sliding_attention"] * 5}


@pytest.mark.parametrize(
    ("config", "field", "severity", "said"),
    [
        (changed(hidden_size=2048), "hidden_size", "refuse", "2,048 numbers, the target's have 4,096"),
        (changed(hidden_size="wide"), "hidden_size", "refuse", "no hidden_size, the target's states have 4,096"),
        (changed(num_target_layers=40), "layer_ids", "refuse", "a target of 40 layers, this one has 36"),
        (changed(target_layer_ids=[1, 9, 17, 25, 36]), "layer_ids", "refuse", "speculators' minus one"),
        (changed(target_layer_ids=[9, 1, 17, 25, 33]), "layer_ids", "refuse", "do not rise"),
        (changed(target_layer_ids=[2, 10, 18, 26, 34]), "layer_ids", "warn", "moved by one"),
        (changed(target_layer_ids=[1, 9, 17, 25, 35]), "layer_ids", "warn", "the last layer"),
        (changed(mask_token_id=151936), "mask_id", "refuse", "none of the target's 151,936"),
        (changed(mask_token_id=-1), "mask_id", "refuse", "none of the target's"),
        (changed(mask_token_id=151645), "mask_id", "refuse", "the target's eos token"),
        (changed(mask_token_id=151643), "mask_id", "refuse", "the target's pad token"),
        (changed(mask_token_id=100), "mask_id", "warn", "text can hold it"),
        (changed(mask_token_id=None), "mask_id", "refuse", "names no mask_token_id"),
        (changed(vocab_size=248320), "vocabulary", "refuse", "counts on 248,320 tokens"),
        (changed(vocab_size=151680), "vocabulary", "warn", "counts on 151,680 tokens"),
        (changed(vocab_size=32000), "vocabulary", "refuse", "counts on 32,000 tokens"),
        (changed(rope_theta=None), "rope", "warn", "no rope_theta"),
        (changed(rope_scaling={"mrope_section": [1, 2]}), "rope", "warn", "M-RoPE"),
        (changed(**SLIDING), "window", "refuse", "no sliding_window"),
        (changed(**SLIDING, sliding_window=2048), "window", "warn", "causal inside a block"),
        (changed(sliding_window=2048), "window", "warn", "no layer_types"),
        (changed(block_size=None), "block_size", "warn", "engines then take 16"),
        (changed(block_size=1), "block_size", "refuse", "drafts nothing"),
        (changed(sample_from_anchor=True), "block_size", "refuse", "anchor slot predicts"),
        (changed(quantization_config={"quant_method": "awq"}), "quantisation", "warn", "quantised (awq)"),
    ],
)
def test_each_misfit_is_found_alone(
    tmp_path: Path, config: dict[str, Any], field: str, severity: str, said: str
) -> None:
    (finding,) = found(tmp_path, config)
    assert (finding.field, finding.severity) == (field, severity)
    assert said in finding.what
    assert finding.remedy.endswith(".") and finding.source.startswith("https://")


def test_the_other_formats_number_is_named_in_that_formats_words(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, SPECULATORS | {"aux_hidden_state_layer_ids": [1, 9, 17, 25, 33]})
    assert (finding.field, finding.severity) == ("layer_ids", "warn")
    assert "z-lab's plus one" in finding.what and "aux_hidden_state_layer_ids" in finding.remedy
    (finding,) = found(tmp_path, SPECULATORS | {"aux_hidden_state_layer_ids": [0, 9, 17, 25, 33]})
    assert finding.severity == "refuse" and "leave the target's 36 layers" in finding.what


def test_a_mask_token_of_that_name_is_no_fault(tmp_path: Path) -> None:
    named = replace(TOKENIZER, named={100: "<|mask|>"})
    assert found(tmp_path, changed(mask_token_id=100), Target(FACTS, named)) == []


def test_what_is_not_known_is_not_held_against_it(tmp_path: Path) -> None:
    nothing = ModelFacts(format="safetensors", architecture="x", source="nowhere")
    assert found(tmp_path, changed(hidden_size=1, mask_token_id=151643), Target(nothing)) == []


def test_modes_and_languages_come_from_the_recipe(tmp_path: Path) -> None:
    findings = found(tmp_path, ZLAB, modes=("thinking",), languages=("en",))
    assert [finding.field for finding in findings] == ["modes", "languages"]
    assert "non-thinking" in findings[0].what and "issues/60" in findings[0].source
    assert found(tmp_path, ZLAB, modes=("thinking", "non-thinking"), languages=("en", "zh")) == []


def test_a_longer_request_than_it_goes_to(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, ZLAB, Target(FACTS, TOKENIZER, context=65536))
    assert (finding.field, finding.severity) == ("context", "warn")
    assert "40,960" in finding.remedy


def test_more_tokens_than_its_block(tmp_path: Path) -> None:
    facts = read_drafter(write(tmp_path, ZLAB))
    assert check(facts, TARGET, tokens=15) == check(facts, TARGET, tokens=7) == []
    (finding,) = check(facts, TARGET, tokens=16)
    assert finding.field == "block_size" and finding.remedy == "Draft 15 or fewer."


def test_eagle3_needs_its_table_where_its_head_is_reduced(tmp_path: Path) -> None:
    llama = ModelFacts(
        format="safetensors", architecture="llama", source="Llama-3", layers=32, hidden_size=4096, vocab_size=128256
    )  # fmt: skip
    facts = read_drafter(write(tmp_path, EAGLE3))
    assert check(facts, Target(llama)) == []
    tensors = write_tiny(tmp_path / "t", hidden=64, target_layers=8, vocab=32, mask=30, taps=(1,))
    (finding,) = check(replace(facts, tensors=read_drafter(tensors).tensors), Target(llama))
    assert finding.field == "vocabulary" and "d2t" in finding.what


TINY = ModelFacts(format="safetensors", architecture="llama", source="tiny", layers=8, hidden_size=128, vocab_size=32)


def tiny(directory: Path) -> DrafterFacts:
    return read_drafter(write_tiny(directory, hidden=128, target_layers=8, vocab=32, mask=30, taps=(1, 5)))


def test_tensors_are_compared_with_the_config(tmp_path: Path) -> None:
    facts = tiny(tmp_path)
    assert refusals(check(facts, Target(TINY))) == []
    (finding,) = refusals(check(replace(facts, taps=(1, 3, 5), written_taps=(1, 3, 5)), Target(TINY)))
    assert "fc.weight reads 256 numbers, 3 layers of 128 give 384" in finding.what
    kept = {name: tensor for name, tensor in facts.tensors.items() if "q_norm" not in name and name != "norm.weight"}
    (finding,) = refusals(check(replace(facts, tensors=kept), Target(TINY)))
    assert finding.field == "tensors" and re.search(r"lack norm\.weight and 1 more", finding.what)


def test_refusals_come_first(tmp_path: Path) -> None:
    findings = found(tmp_path, changed(rope_theta=None, hidden_size=2048))
    assert [finding.severity for finding in findings] == ["refuse", "warn"]
