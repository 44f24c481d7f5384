from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outrider.errors import WeightsUnreadable
from outrider.models.facts import read_facts
from outrider.models.gguf import read_header

U32, FLOAT, STRING, ARRAY = 4, 6, 8, 9


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(key: str, kind: int, value: Any) -> bytes:
    head = text(key) + struct.pack("<I", kind)
    if kind == STRING:
        return head + text(value)
    if kind == ARRAY:
        inner, items = value
        packed = [text(item) if inner == STRING else struct.pack("<I", item) for item in items]
        return head + struct.pack("<IQ", inner, len(items)) + b"".join(packed)
    return head + struct.pack("<I" if kind == U32 else "<f", value)


def gguf(
    entries: list[bytes], tensors: Sequence[tuple[str, tuple[int, ...], int, int]], data: int, version: int = 3
) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(entries)) + b"".join(entries)
    for name, shape, kind, offset in tensors:
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
    return head + bytes(-len(head) % 32) + bytes(data)


ENTRIES = [
    entry("general.architecture", STRING, "tiny"),
    entry("tiny.block_count", U32, 2),
    entry("tiny.embedding_length", U32, 64),
    entry("tiny.feed_forward_length", ARRAY, (U32, [128, 256])),
    entry("tiny.attention.head_count", U32, 4),
    entry("tokenizer.ggml.tokens", ARRAY, (STRING, ["a", "b", "ü"])),
    entry("tiny.rope.freq_base", FLOAT, 1e5),
]
TENSORS = [("token_embd.weight", (64, 3), 0, 0), ("output.weight", (64, 3), 8, 768)]
TINY = gguf(ENTRIES, TENSORS, 768 + 6 * 34)


@pytest.mark.e2e
def test_the_real_model(model: Path) -> None:
    facts = read_facts(model)
    assert facts.model_dump(exclude_defaults=True) == {
        "format": "gguf",
        "architecture": "llama",
        "source": "GGUF header of SmolLM2-135M-Instruct.Q4_1.gguf",
        "parameters": 134_515_008,
        "layers": 30,
        "hidden_size": 576,
        "ffn_size": 1536,
        "heads": 9,
        "kv_heads": 3,
        "head_dim": 64,
        "vocab_size": 49152,
        "context_length": 8192,
        "tied_embeddings": True,
        "quantisation": "Q4_1",
        "file_bytes": 98_362_432,
        "has_chat_template": True,
    }


@pytest.mark.e2e
def test_the_real_model_truncated(model: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.gguf"
    with model.open("rb") as whole:
        short.write_bytes(whole.read(8_000_000))
    with pytest.raises(WeightsUnreadable, match="truncated"):
        read_facts(short)


@pytest.mark.parametrize("version", [2, 3])
def test_what_a_header_does_not_say_is_unknown(tmp_path: Path, version: int) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf(ENTRIES, TENSORS, 768 + 6 * 34, version))
    facts = read_facts(path)
    assert (facts.architecture, facts.layers, facts.ffn_size, facts.kv_heads) == ("tiny", 2, 256, 4)
    assert (facts.vocab_size, facts.parameters, facts.tied_embeddings) == (3, 384, False)
    assert (facts.context_length, facts.has_chat_template, facts.quantisation) == (None, False, "F32")
    assert read_facts(tmp_path) == facts, "a directory with one GGUF file is that file"


def test_a_part_of_a_split_model_does_not_count_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf([*ENTRIES, entry("split.count", U32, 2)], TENSORS, 768 + 6 * 34))
    facts = read_facts(path)
    assert (facts.parameters, facts.tied_embeddings) == (None, None)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "too few"),
        (b"PK\x03\x04" + bytes(100), "does not start with GGUF"),
        (b"GGUF" + struct.pack("<I", 1) + bytes(100), "version 1"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(100), "big-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60), "metadata keys cannot be in it"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), "tensors cannot be in it"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 50) + bytes(100), "a string of"),
        (gguf([text("k") + struct.pack("<IIQ", 9, 4, 1 << 62)], [], 100), "array items cannot be in it"),
        (gguf([text("k") + struct.pack("<IIQ", 9, 9, 1)], [], 100), "nests arrays"),
        (gguf([text("k") + struct.pack("<I", 99)], [], 100), "unknown value type 99"),
        (gguf([], [("x", (1,) * 9, 0, 0)], 100), "9 dimensions"),
        (gguf(ENTRIES, TENSORS, 768 + 6 * 34 - 1), "truncated: 'output.weight'"),
        (gguf([entry("general.alignment", U32, 0)], [], 100), "alignment"),
        (gguf([], [], 100), "no general.architecture"),
    ],
)
def test_hostile_and_broken_files_are_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(content)
    with pytest.raises(WeightsUnreadable, match=said):
        read_facts(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(4, len(TINY) - 1), st.integers(0, 255)), max_size=4), st.integers(0, len(TINY)))
def test_any_damage_is_read_or_refused(tmp_path: Path, damage: list[tuple[int, int]], length: int) -> None:
    content = bytearray(TINY)
    for place, value in damage:
        content[place] = value
    path = tmp_path / "x.gguf"
    path.write_bytes(content[:length])
    try:
        read_header(path)
    except WeightsUnreadable:
        return


def test_no_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(WeightsUnreadable, match="no such file"):
        read_facts(tmp_path / "absent.gguf")


CONFIG = {
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "max_position_embeddings": 4096,
    "vocab_size": 100,
    "dtype": "bfloat16",
    "tie_word_embeddings": True,
}


def safetensors(shape: list[int], size: int) -> bytes:
    header = json.dumps(
        {"__metadata__": {}, "w": {"dtype": "BF16", "shape": shape, "data_offsets": [0, size]}}
    ).encode()
    return struct.pack("<Q", len(header)) + header + bytes(size)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model-1.safetensors").write_bytes(safetensors([10, 20], 400))
    (tmp_path / "model-2.safetensors").write_bytes(safetensors([5], 10))
    return tmp_path


def test_a_checkpoint(checkpoint: Path) -> None:
    facts = read_facts(checkpoint)
    assert facts == read_facts(checkpoint / "config.json")
    assert (facts.format, facts.architecture, facts.parameters, facts.layers) == ("safetensors", "qwen3", 205, 3)
    assert (facts.heads, facts.kv_heads, facts.head_dim, facts.context_length) == (4, 2, 16, 4096)
    assert (facts.quantisation, facts.tied_embeddings, facts.ffn_size) == ("bfloat16", True, None)
    assert facts.has_chat_template is None
    (checkpoint / "tokenizer_config.json").write_text('{"chat_template": "x"}')
    assert read_facts(checkpoint).has_chat_template is True


def test_a_language_model_inside_a_larger_one(tmp_path: Path) -> None:
    inner = {**CONFIG, "model_type": "inner"}
    outer = {"model_type": "outer", "text_config": inner}
    (tmp_path / "config.json").write_text(json.dumps(outer))
    facts = read_facts(tmp_path)
    assert (facts.architecture, facts.layers, facts.parameters, facts.file_bytes) == ("outer", 3, None, None)
    assert facts.takes_images is False
    (tmp_path / "config.json").write_text(json.dumps({**outer, "vision_config": {"depth": 2}}))
    assert read_facts(tmp_path).takes_images is True


def test_packed_weights_do_not_count_parameters(checkpoint: Path) -> None:
    (checkpoint / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": {"quant_method": "awq"}}))
    facts = read_facts(checkpoint)
    assert (facts.parameters, facts.quantisation) == (None, "awq")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", b"{", "no JSON"),
        ("config.json", b"[]", "no JSON object"),
        ("config.json", b"{}", "no model_type"),
        ("model-1.safetensors", b"123", "no whole safetensors"),
        ("model-1.safetensors", struct.pack("<Q", 1 << 60) + bytes(99), "no whole safetensors"),
        ("model-1.safetensors", struct.pack("<Q", 2) + b"[]", "broken header"),
        ("model-1.safetensors", safetensors([10, 20], 400)[:-1], "truncated"),
    ],
)
def test_broken_checkpoints_are_refused(checkpoint: Path, name: str, content: bytes, said: str) -> None:
    (checkpoint / name).write_bytes(content)
    with pytest.raises(WeightsUnreadable, match=said):
        read_facts(checkpoint)


def test_an_empty_directory_says_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(WeightsUnreadable, match=r"GGUF file or a directory with config\.json"):
        read_facts(tmp_path)
