"""Which weights a target has: what data, drafters and their cards are bound to.

A GGUF is slow to dequantise, so it can be written out once as a Hugging Face directory; that directory keeps the
digest of the file it came from (``source.json``), since it is the same function.
"""

from __future__ import annotations

import json
from pathlib import Path

from ..models.digests import digest
from .target import Target

_SOURCE = "source.json"


def target_digest(path: Path) -> str:
    """SHA-256 of the weights at ``path``: a file, a directory, or the GGUF that a directory was written from."""
    source = path / _SOURCE
    if source.is_file():
        return str(json.loads(source.read_text())["sha256"])
    return digest(path, lambda _: None)


def dequantise(gguf: Path, directory: Path) -> None:
    """Write a GGUF out as a Hugging Face directory in bf16, with its tokenizer and its digest."""
    target = Target.load(gguf)
    directory.mkdir(parents=True, exist_ok=True)
    model, tokenizer = target.model, target.tokenizer
    model.save_pretrained(directory)  # type: ignore[operator]
    tokenizer.save_pretrained(directory)
    about = {"file": gguf.name, "sha256": digest(gguf, lambda _: None)}
    (directory / _SOURCE).write_text(json.dumps(about) + "\n")
