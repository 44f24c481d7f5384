"""What is known of a model's architecture. Read from its files by ``models``; unknown is None, never guessed."""

from __future__ import annotations

from typing import Literal

from outrider.spec.base import SpecModel


class ModelFacts(SpecModel):
    """Facts that planning needs, and where they were read."""

    format: Literal["gguf", "safetensors"]
    architecture: str
    source: str
    parameters: int | None = None
    layers: int | None = None
    hidden_size: int | None = None
    ffn_size: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int | None = None
    context_length: int | None = None
    tied_embeddings: bool | None = None
    quantisation: str | None = None
    file_bytes: int | None = None
    has_chat_template: bool | None = None
