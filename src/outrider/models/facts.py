"""Facts of a model, read from its files: a GGUF header, or ``config.json`` with safetensors headers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outrider.errors import WeightsUnreadable
from outrider.models.checkpoint import read_checkpoint
from outrider.models.gguf import Header, read_header
from outrider.spec.facts import ModelFacts


def read_facts(path: Path) -> ModelFacts:
    """Read the facts of a GGUF file, a ``config.json``, or a directory that holds either. Unknown facts are None.

    Raises:
        WeightsUnreadable: neither, damaged, or truncated.
    """
    if path.is_dir():
        ggufs = sorted(path.glob("*.gguf"))
        if not (path / "config.json").exists() and len(ggufs) == 1:
            return _from_gguf(ggufs[0], read_header(ggufs[0]))
        return read_checkpoint(path)
    if path.name == "config.json":
        return read_checkpoint(path.parent)
    return _from_gguf(path, read_header(path))


def _from_gguf(path: Path, header: Header) -> ModelFacts:
    metadata = header.metadata
    architecture = metadata.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise WeightsUnreadable(f"Cannot tell what {path.name} is", why="it has no general.architecture")

    def whole(key: str) -> int | None:
        return _whole(metadata.get(f"{architecture}.{key}"))

    hidden, heads = whole("embedding_length"), whole("attention.head_count")
    complete = (_whole(metadata.get("split.count")) or 1) == 1
    names = {tensor.name for tensor in header.tensors}
    return ModelFacts(
        format="gguf",
        architecture=architecture,
        source=f"GGUF header of {path.name}",
        parameters=sum(tensor.elements for tensor in header.tensors) if complete and header.tensors else None,
        layers=whole("block_count"),
        hidden_size=hidden,
        ffn_size=whole("feed_forward_length"),
        heads=heads,
        kv_heads=whole("attention.head_count_kv") or heads,
        head_dim=whole("attention.key_length") or (hidden // heads if hidden and heads else None),
        experts=whole("expert_count"),
        experts_per_token=whole("expert_used_count"),
        expert_ffn_size=whole("expert_feed_forward_length"),
        kv_lora_rank=whole("attention.kv_lora_rank"),
        rope_head_dim=whole("rope.dimension_count") if whole("attention.kv_lora_rank") else None,
        **_windows(metadata.get(f"{architecture}.attention.sliding_window_pattern"), whole("attention.sliding_window")),
        vocab_size=whole("vocab_size") or _whole(metadata.get("tokenizer.ggml.tokens")),
        context_length=whole("context_length"),
        tied_embeddings="output.weight" not in names if complete and "token_embd.weight" in names else None,
        quantisation=header.quantisation(),
        file_bytes=header.bytes,
        has_chat_template="tokenizer.chat_template" in metadata,
    )


def _windows(pattern: Any, window: int | None) -> dict[str, int | None]:
    """Layers with a sliding window, where the file lists them; llama.cpp knows patterns that no file lists."""
    layers = sum(map(bool, pattern)) if isinstance(pattern, list) else None
    return {"window": window, "window_layers": layers} if layers or window is None else {"window": window}


def _whole(value: Any) -> int | None:
    """A positive integer; of one figure a layer, the largest, since memory is planned with it."""
    if isinstance(value, list):
        return max((item for item in map(_whole, value) if item), default=None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
