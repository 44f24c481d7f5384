"""Bad drafters: a ``config.json`` that is none, or not a DFlash's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from outrider.drafting.config import DraftConfig
from outrider.errors import OutriderError
from tests.matrix.refusal import Refusal, check_refusal

GOOD: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_target_layers": 12,
    "vocab_size": 100,
    "block_size": 8,
    "dflash_config": {"mask_token_id": 99},
}


class Case(NamedTuple):
    """The text of a ``config.json`` (None for no file), the code it is refused with, and a word of the refusal."""

    text: str | None
    code: str
    says: str


def _with(says: str, **changes: object) -> Case:
    return Case(json.dumps(GOOD | changes), "invalid_drafter", says)


def _inside(says: str, **changes: object) -> Case:
    return _with(says, dflash_config=GOOD["dflash_config"] | changes)


CASES = {
    "no file": Case(None, "invalid_drafter", "No such file"),
    "no JSON": Case("{", "invalid_drafter", "no JSON"),
    "a list": Case("[]", "invalid_drafter", "no JSON object"),
    "nothing in it": Case("{}", "invalid_drafter", "hidden_size"),
    "a misspelt field": _with("hiden_size", hiden_size=1),
    "a field of another architecture": _inside("dflash_config.projector_type", projector_type="domino"),
    "another activation": _with("hidden_act", hidden_act="gelu"),
    "a number as text": _with("hidden_size is '64'", hidden_size="64"),
    "a negative number": _with("vocab_size is -1", vocab_size=-1),
    "no heads": _with("num_attention_heads is 0", num_attention_heads=0),
    "true for a number": _with("num_hidden_layers is True", num_hidden_layers=True),
    "a number for true": _with("is_causal is 1", is_causal=1),
    "a word for an object": _with("dflash_config is no object", dflash_config="x"),
    "a list for RoPE": _with("its RoPE is [1]", rope_scaling=[1]),
    "a word for RoPE's base": _with("rope_theta is 'big'", rope_theta="big"),
    "an unknown RoPE": _with("rope_type is 'spiral'", rope_scaling={"rope_type": "spiral"}),
    "half a rotation": _with("no partial", rope_scaling={"type": "default", "partial_rotary_factor": 0.5}),
    "layers as a word": _with("layer_types is 'full_attention'", layer_types="full_attention"),
    "layers of no kind": _with("layer_types are", layer_types=["linear", "linear"]),
    "taps as words": _inside("target_layer_ids is ['a']", target_layer_ids=["a"]),
    "taps beyond the target": _inside("layers of the target", target_layer_ids=[1, 12]),
    "no taps": _inside("target_layer_ids ascend", target_layer_ids=[]),
    "a mask beyond the vocabulary": _inside("mask_token_id is a row", mask_token_id=100),
    "a block of one": _with("block_size is at least 2", block_size=1),
    "half a DFlash 2": _inside("DFlash 2 has all of", selector_rank=4),
    "groups that do not divide": _inside(
        "conv_group_size divides", conv_kernel_size=2, conv_group_size=7, selector_rank=4, selector_top_k=4
    ),
    "a drafter that samples from its anchor": _inside("DSpark", sample_from_anchor=True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_config_is_refused_by_name(tmp_path: Path, case: Case) -> None:
    if case.text is not None:
        (tmp_path / "config.json").write_text(case.text)
    with pytest.raises(OutriderError) as caught:
        DraftConfig.read(tmp_path)
    check_refusal(Refusal.of_error(caught.value), case.code, case.says)


def test_the_good_one_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(GOOD))
    assert DraftConfig.read(tmp_path).target_layer_ids == (1, 9)
