"""What is known of a model's architecture. Read from its files by ``models``; unknown is None, never guessed."""

from __future__ import annotations

from typing import Literal

from outrider.spec.base import SpecModel


class ModelFacts(SpecModel):
    """Facts that planning needs, and where they were read. Every number is a count unless it says bytes."""

    format: Literal["gguf", "safetensors"]
    """How the weights are stored, which decides the engines that can read them."""
    architecture: str
    """The family as the files name it: ``general.architecture`` of a GGUF, ``architectures[0]`` of a config.json."""
    source: str
    """Where the facts were read: a file, or a page's URL. A fact without a source is a rumour."""
    parameters: int | None = None
    """All parameters, embeddings included (a mixture of experts counts every expert)."""
    layers: int | None = None
    """Transformer blocks."""
    hidden_size: int | None = None
    """Width of the residual stream."""
    ffn_size: int | None = None
    """Inner width of the feed-forward network."""
    heads: int | None = None
    """Query heads of a layer."""
    kv_heads: int | None = None
    """Key/value heads of a layer; fewer than ``heads`` with grouped-query attention. Decides the KV cache's size."""
    head_dim: int | None = None
    """Width of one head."""
    vocab_size: int | None = None
    """Entries of the tokenizer."""
    context_length: int | None = None
    """Tokens it was trained for."""
    tied_embeddings: bool | None = None
    """Whether the output head is the input embedding."""
    quantisation: str | None = None
    """As the files name it (``Q4_1``, ``fp8``, ``BF16``)."""
    file_bytes: int | None = None
    """Size of the weights on disk, bytes."""
    has_chat_template: bool | None = None
    """Whether the files say how a conversation is written; without one ``/v1/chat/completions`` guesses."""
