"""Drafters on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from outrider.drafting import checkpoint
from outrider.errors import InvalidDrafter

from . import tiny

#: research/dflash §2.1, for `tiny.config`: H 32, K 3, I 48, 4 query and 2 key heads of 8, V 64.
TABLE = {
    "fc.weight": [32, 96],
    "hidden_norm.weight": [32],
    "norm.weight": [32],
    "input_layernorm.weight": [32],
    "post_attention_layernorm.weight": [32],
    "self_attn.q_proj.weight": [32, 32],
    "self_attn.k_proj.weight": [16, 32],
    "self_attn.v_proj.weight": [16, 32],
    "self_attn.o_proj.weight": [32, 32],
    "self_attn.q_norm.weight": [8],
    "self_attn.k_norm.weight": [8],
    "mlp.gate_proj.weight": [48, 32],
    "mlp.up_proj.weight": [48, 32],
    "mlp.down_proj.weight": [32, 48],
}
TABLE_2 = {
    "attention_conv.base_kernel": [2, 2, 32],
    "attention_conv.kernel_projection.weight": [16, 32],
    "mlp_conv.base_kernel": [2, 2, 32],
    "mlp_conv.kernel_projection.weight": [16, 32],
    "candidate_selector.predecessor_codebook": [64, 6],
    "candidate_selector.successor_codebook": [64, 6],
    "candidate_selector.hidden_projection.weight": [6, 32],
}
WHOLE = ("fc.", "hidden_norm.", "norm.", "candidate_selector.")


def per_layer(table: dict[str, list[int]]) -> dict[str, list[int]]:
    """The table with the names of both layers written out."""
    whole = {name: shape for name, shape in table.items() if name.startswith(WHOLE)}
    return whole | {f"layers.{i}.{n}": s for i in range(2) for n, s in table.items() if n not in whole}


@pytest.mark.parametrize(("shape", "table"), [({}, TABLE), (tiny.DFLASH2, TABLE | TABLE_2)], ids=["dflash", "dflash 2"])
def test_what_is_written_has_the_names_and_shapes_of_z_lab(tmp_path: Path, shape: Any, table: Any) -> None:
    checkpoint.save(tiny.drafter(tiny.config(**shape)), tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    assert {name: list(value.shape) for name, value in weights.items()} == per_layer(table)
    assert {value.dtype for value in weights.values()} == {torch.bfloat16}
    document = json.loads((tmp_path / "config.json").read_text())
    assert document["architectures"] == ["DFlash2DraftModel" if shape else "DFlashDraftModel"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("shape", [{}, tiny.DFLASH2, {"attention_bias": True}], ids=["dflash", "dflash 2", "bias"])
def test_what_is_written_is_read_back(tmp_path: Path, shape: Any) -> None:
    drafter = tiny.drafter(tiny.config(**shape)).to(torch.bfloat16)
    features, positions = tiny.features(5)
    drafter.project_context(features, positions)  # its weights share one storage now
    with torch.no_grad():
        drafter.project_context(features, positions)
    checkpoint.save(drafter, tmp_path)
    back = checkpoint.load(tmp_path)
    assert back.config == drafter.config
    assert not back.training
    for name, value in drafter.state_dict().items():
        assert torch.equal(value, back.state_dict()[name])
    assert checkpoint.load(tmp_path, dtype=torch.float32).fc.weight.dtype == torch.float32


def test_missing_unexpected_and_misshapen_tensors_are_named(tmp_path: Path) -> None:
    checkpoint.save(tiny.drafter(), tmp_path)
    file = tmp_path / "model.safetensors"
    good = load_file(file)
    bad = {name: value for name, value in good.items() if name != "layers.1.self_attn.k_norm.weight"}
    bad |= {"lm_head.weight": torch.zeros(2, 2), "fc.weight": torch.zeros(32, 64)}
    save_file(bad, file)
    with pytest.raises(InvalidDrafter) as refused:
        checkpoint.load(tmp_path)
    assert refused.value.details["tensors"] == [
        "layers.1.self_attn.k_norm.weight is missing",
        "lm_head.weight is unexpected",
        "fc.weight is [32, 64], not [32, 96]",
    ]


@pytest.mark.parametrize("content", [None, b"no safetensors"])
def test_unreadable_weights_are_an_error_of_one_line(tmp_path: Path, content: bytes | None) -> None:
    checkpoint.save(tiny.drafter(), tmp_path)
    file = tmp_path / "model.safetensors"
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(InvalidDrafter, match="No drafter can be read"):
        checkpoint.load(tmp_path)
