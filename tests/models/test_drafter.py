"""Each format of a drafter's config gives the same facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from outrider.errors import WeightsUnreadable
from outrider.models.drafter import default_taps, read_drafter
from tests.models.drafter_files import EAGLE3, SPECULATORS, ZLAB, write, write_tiny
from tests.models.real import smollm

TAPS = (1, 9, 17, 25, 33)


def test_two_formats_of_one_drafter_agree(tmp_path: Path) -> None:
    zlab, other = read_drafter(write(tmp_path / "z", ZLAB)), read_drafter(write(tmp_path / "s", SPECULATORS))
    assert (zlab.format, other.format) == ("z-lab", "speculators")
    for name in ("method", "kind", "hidden_size", "layers", "taps", "vocab_size", "mask_token_id", "block_size"):
        assert getattr(zlab, name) == getattr(other, name), name
    assert zlab.taps == TAPS
    assert other.written_taps == tuple(layer + 1 for layer in TAPS)
    assert other.verifier == "Qwen/Qwen3-8B"


@pytest.mark.parametrize(
    ("layers", "taps"),
    [(36, TAPS), (40, (1, 10, 19, 28, 37)), (64, (1, 16, 31, 46, 61))],
)
def test_the_usual_layers_are_those_of_the_released_drafters(layers: int, taps: tuple[int, ...]) -> None:
    assert default_taps(layers, 5) == taps
    assert default_taps(36, 1) == (18,)


def test_ids_that_are_left_out_are_the_usual_ones(tmp_path: Path) -> None:
    facts = read_drafter(write(tmp_path, ZLAB | {"dflash_config": {"mask_token_id": 151669}}))
    assert facts.taps == TAPS and facts.written_taps is None


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ({"architectures": ["DFlash2DraftModel"]}, "dflash2"),
        ({"architectures": ["LiLiCorrDraftModel"]}, "lilicorr"),
        ({"dflash_config": {**ZLAB["dflash_config"], "projector_type": "domino"}}, "domino"),
        ({"dflash_config": {**ZLAB["dflash_config"], "selector_rank": 256}}, "dflash2"),
    ],
)
def test_the_successors_are_told_apart(tmp_path: Path, more: dict[str, Any], kind: str) -> None:
    facts = read_drafter(write(tmp_path, ZLAB | more))
    assert (facts.kind, facts.method) == (kind, "dflash")


def test_windows_rope_and_quantisation(tmp_path: Path) -> None:
    more = {
        "layer_types": ["sliding_attention"] * 4 + ["full_attention"],
        "sliding_window": 2048,
        "is_causal": False,
        "rope_scaling": {"rope_type": "default", "mrope_section": [24, 20, 20]},
        "quantization_config": {"quant_method": "compressed-tensors"},
    }
    facts = read_drafter(write(tmp_path, ZLAB | more))
    assert (facts.window, facts.window_layers, facts.causal) == (2048, 4, False)
    assert facts.mrope and facts.quantisation == "compressed-tensors"


def test_eagle3_and_plain_models(tmp_path: Path) -> None:
    eagle = read_drafter(write(tmp_path / "e", EAGLE3))
    assert (eagle.format, eagle.method, eagle.draft_vocab_size) == ("eagle3", "eagle3", 32000)
    plain = read_drafter(write(tmp_path / "p", {"architectures": ["Qwen3ForCausalLM"], "hidden_size": 1024}))
    assert (plain.format, plain.method) == ("model", "draft")


def test_tensors_are_counted(tmp_path: Path) -> None:
    facts = read_drafter(write_tiny(tmp_path, hidden=128, target_layers=8, vocab=32, mask=30, taps=(1, 5)))
    assert facts.tensors["fc.weight"].shape == (128, 256)
    assert facts.parameters == sum(tensor.elements for tensor in facts.tensors.values()) > 128 * 256


@pytest.mark.parametrize(
    ("config", "said"),
    [({}, "names no architectures"), ({"speculators_model_type": "medusa"}, "none of dflash")],
)
def test_what_is_no_drafter_is_refused(tmp_path: Path, config: dict[str, Any], said: str) -> None:
    with pytest.raises(WeightsUnreadable, match=said):
        read_drafter(write(tmp_path, config))


def test_a_gguf_of_another_architecture_is_refused() -> None:
    with pytest.raises(WeightsUnreadable, match="its architecture is 'llama'"):
        read_drafter(smollm())
