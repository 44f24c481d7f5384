"""The files that cases name: specs, sources, weights and recipes, each wrong in one way."""

from __future__ import annotations

import json
import shutil
import struct
import zipfile
from pathlib import Path

from tests.engines.tiny_lora import write_adapter
from tests.models.drafter_files import write_tiny
from tests.models.test_facts import ENTRIES, TENSORS, TINY, gguf

SERVE = Path(__file__).parents[2] / "examples/http_server/serve.py"
"""A good one, whose App is ``hello``."""

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
"""Nine levels of nine aliases: 400 bytes that stand for 400 million values."""


def write_bad_files(directory: Path) -> None:
    """Write them."""
    (directory / "folder").mkdir()
    (directory / "list.yaml").write_text("- chat\n")
    (directory / "kinds.yaml").write_text("concurrency: 0\nkinds: {chat: {profile: chat, trace: x.jsonl}}\n")
    (directory / "lost.yaml").write_text("kinds: {chat: {trace: nope.jsonl}}\n")
    (directory / "binary").write_bytes(b"\x00\xff\xfe\x80" * 64)
    (directory / "empty").write_text("")
    (directory / "two.yaml").write_text("model: a/b\n---\nmodel: a/c\n")
    shutil.copy(SERVE, directory / "serve.py")
    (directory / "good.gguf").write_bytes(TINY)
    _weights(directory)
    _wheel(directory)
    write_adapter(directory / "narrow-adapter", hidden=64, writes=576)
    write_tiny(directory / "other-drafter", hidden=128, target_layers=8, vocab=32, mask=30, taps=(1, 5))
    for place, mask in (("one", 30), ("two", 29)):
        write_tiny(directory / place / "small", hidden=128, target_layers=8, vocab=32, mask=mask, taps=(1, 5))
    (directory / "other-family").mkdir()
    (directory / "other-family/config.json").write_text(json.dumps({"model_type": "qwen3"}))
    (directory / "deeper").mkdir()
    (directory / "deeper/config.json").write_text(json.dumps({"model_type": "llama", "num_hidden_layers": 32}))


def _weights(directory: Path) -> None:
    (directory / "truncated.gguf").write_bytes(TINY[:-100])
    (directory / "cut-header.gguf").write_bytes(TINY[:100])
    (directory / "tiny.gguf").write_bytes(b"GGUF")
    (directory / "text.gguf").write_text("This is no model, but it is long enough to hold a header.")
    (directory / "version.gguf").write_bytes(gguf(ENTRIES, TENSORS, 0, version=9))
    (directory / "big-endian.gguf").write_bytes(b"GGUF" + struct.pack(">IQQ", 3, 1, 1))
    (directory / "hostile.gguf").write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 2**60, 2**60))
    (directory / "nameless.gguf").write_bytes(gguf([], [], 64))
    configs = {
        "corrupt": b'{"model_type": "llama", ',
        "list": b"[]",
        "typeless": b"{}",
        "latin": b'{"model_type": "\xe9"}',
    }
    for name, content in configs.items():
        (directory / f"checkpoint-{name}").mkdir()
        (directory / f"checkpoint-{name}/config.json").write_bytes(content)
    broken = directory / "checkpoint-safetensors"
    broken.mkdir()
    (broken / "config.json").write_text(json.dumps({"model_type": "llama"}))
    (broken / "model.safetensors").write_bytes(struct.pack("<Q", 10**12) + b"{}")


def _wheel(directory: Path) -> None:
    (directory / "bad_wheel-1.0-py3-none-any.whl").write_bytes(b"PK no zip")
    with zipfile.ZipFile(directory / "some_weights-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("some_weights/model.gguf", TINY)
        info = "some_weights-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: some-weights\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
