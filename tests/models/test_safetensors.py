"""Headers of safetensors files, and the ways in which a file is none."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from outrider.errors import WeightsUnreadable
from outrider.models.safetensors import Tensor, read_all, read_object, read_tensors
from tests.engines.tiny_lora import write_tensors


def test_names_types_and_shapes(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a.safetensors", {"x": ((2, 3), [0.0] * 6)})
    write_tensors(tmp_path / "b.safetensors", {"y": ((), [1.0])})
    assert read_tensors(tmp_path / "a.safetensors") == {"x": Tensor("F32", (2, 3))}
    both = read_all(sorted(tmp_path.glob("*.safetensors")))
    assert {name: tensor.elements for name, tensor in both.items()} == {"x": 6, "y": 1}


def _header(content: object, claimed: int | None = None) -> bytes:
    text = json.dumps(content).encode()
    return struct.pack("<Q", len(text) if claimed is None else claimed) + text


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no whole safetensors file"),
        (b"1234567", "no whole safetensors file"),
        (_header({}, claimed=2**60), "no whole safetensors file"),
        (_header([]), "broken header"),
        (_header({"x": {}}), "broken header"),
        (_header({"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 0]}}), "broken header"),
        (_header({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}), "truncated"),
    ],
)
def test_what_is_no_whole_file_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(WeightsUnreadable, match=said):
        read_tensors(path)


@pytest.mark.parametrize(("text", "said"), [("{", "no JSON"), ("[]", "no JSON object"), (None, "Cannot read")])
def test_an_object_beside_the_weights(tmp_path: Path, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(WeightsUnreadable, match=said):
        read_object(tmp_path / "config.json")


def test_a_truncated_file_is_named_with_its_directory_and_both_sizes(tmp_path: Path) -> None:
    """Model, drafter and adapters have files of the same names."""
    directory = tmp_path / "mine"
    directory.mkdir()
    path = directory / "model.safetensors"
    data = _header({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})
    path.write_bytes(data + bytes(4))
    with pytest.raises(WeightsUnreadable, match="mine/model") as refused:
        read_tensors(path)
    assert refused.value.why == f"it has {len(data) + 4:,} bytes, its header tells of {len(data) + 8:,}"
    with pytest.raises(WeightsUnreadable, match="Cannot read mine/config"):
        read_object(directory / "config.json")
