"""What is known of a model's architecture. Read from its files by ``models``; unknown is None, never guessed."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from outrider.spec.base import SpecModel


class ModelFacts(SpecModel):
    """Facts that planning needs, and where they were read. Every number is a count unless it says bytes."""

    format: Literal["gguf", "safetensors"]
    """How the weights are stored, which decides the engines that can read them."""
    architecture: str
    """The family as the files name it: ``general.architecture`` of a GGUF, ``architectures[0]`` of a config.json."""
    source: str
    """Where the facts were read: a file, or a page's URL. A fact without a source is a rumour."""
    sources: dict[str, str] = Field(default_factory=dict)
    """Facts that were read elsewhere than in ``source``: the fact's name, and where."""
    parameters: int | None = None
    """All parameters, embeddings included (a mixture of experts counts every expert)."""
    active_parameters: int | None = None
    """Parameters that one token uses; fewer than all in a mixture of experts. None: all, where ``experts`` is None."""
    layers: int | None = None
    """Transformer blocks, of every kind."""
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
    kv_lora_rank: int | None = None
    """Multi-head latent attention: width of the compressed keys and values that are cached instead of heads."""
    rope_head_dim: int | None = None
    """Multi-head latent attention: width of the key's rotary part, cached beside them."""
    index_head_dim: int | None = None
    """Sparse attention: width of the key that the indexer caches beside these, a token and layer."""
    experts: int | None = None
    """Routed experts of a layer. None: no mixture of experts."""
    experts_per_token: int | None = None
    """Routed experts that a token uses."""
    shared_experts: int | None = None
    """Experts of a layer that every token uses, beside the routed ones."""
    expert_ffn_size: int | None = None
    """Inner width of one routed expert."""
    dense_layers: int | None = None
    """Layers, the first ones, that have a dense feed-forward network instead of experts."""
    mtp_layers: int | None = None
    """Layers trained to predict further tokens, which an engine can draft with."""
    window: int | None = None
    """Tokens that layers with a sliding window look back."""
    window_layers: int | None = None
    """Layers with a sliding window; they cache no more than it. None: none, where ``window`` is None."""
    window_kv_heads: int | None = None
    """Key/value heads of these, where they differ from the other layers'."""
    window_head_dim: int | None = None
    """Width of their heads, where it differs."""
    linear_layers: int | None = None
    """Layers with linear attention or a state space: they cache a state of fixed size, and no keys and values."""
    linear_state: int | None = None
    """Numbers in the state that such a layer keeps for one request."""
    plain_layers: int | None = None
    """Layers without attention of any kind, which cache nothing (feed-forward blocks of hybrid models)."""
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
    takes_images: bool | None = None
    """Whether requests may hold images. None: not known, and none is sent while warming up."""
    has_chat_template: bool | None = None
    """Whether the files say how a conversation is written; without one ``/v1/chat/completions`` guesses."""

    @model_validator(mode="after")
    def _sourced(self) -> ModelFacts:
        for name in self.sources:
            if name not in type(self).model_fields or getattr(self, name) is None:
                raise ValueError(f"sources.{name}: no such fact is given")
        return self
