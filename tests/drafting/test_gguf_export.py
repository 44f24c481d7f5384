from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType

from outrider.drafting import checkpoint
from outrider.drafting.gguf_export import QUANTISATIONS, export_gguf, gguf_name
from outrider.errors import DrafterUnfit, InvalidDrafter, InvalidInput, WeightsUnreadable
from outrider.models.drafter import read_drafter
from outrider.models.gguf import read_header
from tests.engines.drafting_parts import SHIPPED
from tests.models.real import smollm

from .random_drafter import PLAIN, SECOND, write

_SECOND = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")


@pytest.mark.parametrize("quantisation", QUANTISATIONS)
@pytest.mark.parametrize("config", [PLAIN, SECOND], ids=["dflash", "dflash2"])
def test_the_file_holds_the_drafter_and_the_targets_tokenizer(tmp_path: Path, config, quantisation: str) -> None:  # type: ignore[no-untyped-def]
    source = write(tmp_path / "drafter", config)
    reports: list[tuple[int, int]] = []
    made = export_gguf(
        source,
        tmp_path / "out/drafter.gguf",
        target_model=smollm(),
        quantisation=quantisation,
        report=lambda done, total: reports.append((done, total)),
    )
    assert [path.name for path in made.parent.iterdir()] == ["drafter.gguf"]
    assert reports[-1][0] == reports[-1][1] and len(reports) == len(checkpoint.shapes(config))
    known, target = read_header(made).metadata, read_header(smollm()).metadata
    assert known["general.architecture"] == "dflash"
    assert known["dflash.target_layers"] == [2, 15, 28]
    assert known["dflash.sample_from_anchor"] is False
    assert (known["dflash.block_size"], known["dflash.block_count"]) == (8, 2)
    assert known["dflash.rope.freq_base"] == 100_000
    assert known["tokenizer.ggml.mask_token_id"] == config.mask_token_id
    assert "tokenizer.chat_template" not in known
    copied = {key for key in target if key.startswith("tokenizer.ggml.")}
    assert copied and {key: known[key] for key in copied} == {key: target[key] for key in copied}
    assert {name: known.get(f"dflash.{name}") for name in _SECOND} == {name: getattr(config, name) for name in _SECOND}


@pytest.mark.parametrize("quantisation", QUANTISATIONS)
@pytest.mark.parametrize("shipped", [False, True], ids=["dflash2", "shipped"])
def test_the_numbers_are_the_drafters(tmp_path: Path, shipped: bool, quantisation: str) -> None:
    source = SHIPPED if shipped else write(tmp_path / "drafter", SECOND)
    made = export_gguf(source, tmp_path / "d.gguf", target_model=smollm(), quantisation=quantisation)
    weights = checkpoint.load(source).state_dict()
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(made).tensors}
    assert set(stored) == {gguf_name(name) for name in weights}
    for name, tensor in weights.items():
        found, expected = stored[gguf_name(name)], tensor.float().numpy()
        values = gguf.quants.dequantize(found.data, found.tensor_type).reshape(expected.shape)
        exact = expected.ndim == 1 or name.endswith("base_kernel")
        assert (found.tensor_type == GGMLQuantizationType.F32) == exact, name
        # Q8_0 keeps 127 steps of a block's largest number, and their size in F16; F16 keeps eleven bits.
        error = 0.0 if exact else np.abs(expected).max() / (240 if quantisation == "Q8_0" else 2000)
        assert np.abs(values - expected).max() <= error, name


def test_its_facts_are_those_of_the_directory(tmp_path: Path) -> None:
    source = write(tmp_path / "drafter", SECOND)
    made = read_drafter(export_gguf(source, tmp_path / "d.gguf", target_model=smollm(), quantisation="F16"))
    known = read_drafter(source)
    same = (
        "kind",
        "method",
        "hidden_size",
        "layers",
        "taps",
        "vocab_size",
        "mask_token_id",
        "block_size",
        "rope_theta",
    )
    assert {name: getattr(made, name) for name in same} == {name: getattr(known, name) for name in same}
    assert made.written_taps == (2, 15, 28) and made.sample_from_anchor is False and made.quantisation is None


def test_a_window_is_written_down(tmp_path: Path) -> None:
    source = write(
        tmp_path / "drafter",
        layer_types=("sliding_attention", "full_attention"),
        sliding_window=512,
        is_causal=False,
    )
    known = read_header(export_gguf(source, tmp_path / "d.gguf", target_model=smollm())).metadata
    assert known["dflash.attention.sliding_window"] == 512
    assert known["dflash.attention.sliding_window_pattern"] == [True, False]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"hidden_size": 512, "head_dim": 64, "num_attention_heads": 6},
            "states of 512 numbers, the target's have 576",
        ),
        ({"vocab_size": 49000}, "counts on 49000 tokens, the target has 49152"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "scaled"),
        ({"attention_bias": True}, "biases"),
        ({"layer_types": ("sliding_attention",) * 2, "sliding_window": 512}, "causal"),
    ],
)
def test_what_has_no_gguf_form_is_refused_and_leaves_nothing(tmp_path: Path, changed, said: str) -> None:  # type: ignore[no-untyped-def]
    source = write(tmp_path / "drafter", **changed)
    with pytest.raises((DrafterUnfit, InvalidDrafter), match=said):
        export_gguf(source, tmp_path / "d.gguf", target_model=smollm())
    assert [path.name for path in tmp_path.iterdir()] == ["drafter"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    source, there = write(tmp_path / "drafter"), tmp_path / "d.gguf"
    there.write_text("mine")
    with pytest.raises(DrafterUnfit, match="already"):
        export_gguf(source, there, target_model=smollm())
    assert there.read_text() == "mine"
    with pytest.raises(InvalidInput, match="Q4_K"):
        export_gguf(source, tmp_path / "e.gguf", target_model=smollm(), quantisation="Q4_K")
    with pytest.raises(WeightsUnreadable):
        export_gguf(source, tmp_path / "e.gguf", target_model=source / "model.safetensors")
