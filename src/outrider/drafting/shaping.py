"""A new drafter's config, out of its settings and its target."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError
from .config import DraftConfig, default_layer_ids
from .settings import ShapeSettings
from .target import Target


def shape(settings: ShapeSettings, target: Target) -> DraftConfig:
    """The config of a drafter for ``target``.

    Raises:
        UsageError: no token of the target is free to stand for "not known yet".
    """
    config: Any = target.model.config
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    heads = settings.heads or config.num_attention_heads
    parameters = getattr(config, "rope_parameters", None) or {}
    theta = parameters.get("rope_theta") or getattr(config, "rope_theta", None) or 10_000.0
    dflash2: dict[str, Any] = {}
    if settings.selector_rank:
        dflash2 = {"conv_kernel_size": 2, "conv_group_size": 16, "selector_rank": settings.selector_rank}
        dflash2["selector_top_k"] = settings.selector_top_k
    return DraftConfig(
        hidden_size=target.hidden_size,
        intermediate_size=settings.intermediate or config.intermediate_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=heads,
        num_key_value_heads=settings.kv_heads or getattr(config, "num_key_value_heads", None) or heads,
        head_dim=settings.head_dim or getattr(config, "head_dim", None) or target.hidden_size // heads,
        num_target_layers=target.num_layers,
        vocab_size=target.vocab_size,
        mask_token_id=free_token(target) if settings.mask_token is None else settings.mask_token,
        target_layer_ids=settings.taps
        or tuple(sorted({*default_layer_ids(target.num_layers, max(3, settings.layers))})),
        block_size=settings.block,
        rms_norm_eps=getattr(config, "rms_norm_eps", 1e-6),
        rope_theta=float(settings.rope_theta or theta),
        max_position_embeddings=config.max_position_embeddings,
        is_causal=False,
        input_embedding_scale=target.input_embedding_scale,
        **dflash2,
    )


def free_token(target: Target) -> int:
    """A token of the target that no text uses: a row of the embedding beyond the tokenizer's words, or a special token
    that means nothing (``<|reserved…|>``, ``<unused…>``, ``<repo_name>`` and the like).

    Raises:
        UsageError: there is none.
    """
    tokenizer = target.tokenizer
    if target.vocab_size > len(tokenizer):
        return len(tokenizer)
    words = tokenizer.get_vocab()
    for hint in ("mask", "reserved", "unused", "extra_id", "repo_name", "reponame", "gh_stars", "filename"):
        found = sorted(
            number for word, number in words.items() if hint in word and word[:1] == "<" and word[-1:] == ">"
        )
        if found:
            return int(found[0])
    raise UsageError("No token of the target is free", remedy="Name one that no text uses: shape.mask_token")
