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
    """Parameters that one token passes through; as ``parameters`` for a dense model."""
    layers: int | None = None
    """Transformer blocks."""
    hidden_size: int | None = None
    """Width of the residual stream."""
    ffn_size: int | None = None
    """Inner width of the feed-forward network; in a mixture of experts, of its dense layers."""
    experts: int | None = None
    """Routed experts of a layer; None for a dense model."""
    experts_per_token: int | None = None
    """Routed experts that one token passes through."""
    shared_experts: int | None = None
    """Experts of a layer that every token passes through."""
    expert_ffn_size: int | None = None
    """Inner width of one routed expert."""
    dense_layers: int | None = None
    """Layers, the first ones, that have a dense feed-forward network instead of experts."""
    expert_layers: int | None = None
    """Layers that have experts. None: all but ``dense_layers``."""
    heads: int | None = None
    """Query heads of a layer."""
    kv_heads: int | None = None
    """Key/value heads of a layer; fewer than ``heads`` with grouped-query attention. Decides the KV cache's size."""
    head_dim: int | None = None
    """Width of one head."""
    attention_layers: int | None = None
    """Layers whose KV cache grows with the whole context. None: all ``layers``, where nothing below says else."""
    window_layers: int | None = None
    """Layers that see only the last ``sliding_window`` tokens, and cache no more."""
    sliding_window: int | None = None
    """Tokens that a window layer sees."""
    window_kv_heads: int | None = None
    """Key/value heads of a window layer. None: ``kv_heads``."""
    window_head_dim: int | None = None
    """Width of a window layer's head. None: ``head_dim``."""
    kv_lora_rank: int | None = None
    """Multi-head latent attention: width of the latent vector cached for a token and layer, not keys and values."""
    qk_rope_head_dim: int | None = None
    """Multi-head latent attention: width of the rotated key cached beside the latent vector."""
    q_lora_rank: int | None = None
    """Multi-head latent attention: width of the compressed query."""
    qk_nope_head_dim: int | None = None
    """Multi-head latent attention: width of a head's key without rotation."""
    v_head_dim: int | None = None
    """Multi-head latent attention: width of a head's value."""
    index_head_dim: int | None = None
    """Sparse attention: width of the key that the indexer caches for a token and layer."""
    index_topk: int | None = None
    """Sparse attention: tokens that the indexer picks for a query."""
    recurrent_layers: int | None = None
    """Layers with a state of fixed size for a request instead of a KV cache (Mamba, gated delta networks)."""
    recurrent_heads: int | None = None
    """Heads of a recurrent layer's state."""
    recurrent_key_dim: int | None = None
    """State rows of one head (``linear_key_head_dim``, ``ssm_state_size``)."""
    recurrent_value_dim: int | None = None
    """State columns of one head (``linear_value_head_dim``, ``mamba_head_dim``)."""
    mtp_layers: int | None = None
    """Layers trained to predict further tokens, which the engine can draft with."""
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

    @model_validator(mode="after")
    def _sourced(self) -> ModelFacts:
        for name in self.sources:
            if name not in type(self).model_fields or getattr(self, name) is None:
                raise ValueError(f"sources.{name}: no such fact is given")
        return self
