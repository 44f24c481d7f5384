"""Facts of a checkpoint directory: ``config.json`` (Hugging Face) and the headers of its safetensors files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.errors import WeightsUnreadable
from outrider.models.attention import attention
from outrider.models.safetensors import read_object, read_tensors
from outrider.spec.facts import ModelFacts

_NEXT = "Give a GGUF file or a directory with config.json."


def read_checkpoint(directory: Path) -> ModelFacts:
    """Facts of a directory with a ``config.json``.

    Raises:
        WeightsUnreadable: no or a broken ``config.json``, or a broken safetensors file.
    """
    config = read_object(directory / "config.json", _NEXT)
    # Models of several modalities keep the language model's figures one level deeper.
    text = {**config, **config["text_config"]} if isinstance(config.get("text_config"), dict) else config
    architecture = config.get("model_type")
    if not isinstance(architecture, str):
        raise WeightsUnreadable(
            f"Cannot tell what {directory.name} is", why="its config.json has no model_type", remedy="Correct it."
        )
    files = sorted(directory.glob("*.safetensors"))
    parameters, kinds = _parameters(files, text), attention(text)
    hidden, heads = _whole(text, "hidden_size", "n_embd"), _whole(text, "num_attention_heads", "n_head")
    return ModelFacts(
        format="safetensors",
        architecture=architecture,
        source=f"config.json of {directory.name}" + (" and its safetensors headers" if files else ""),
        parameters=parameters,
        active_parameters=_active(parameters, hidden, _whole(text, "num_hidden_layers", "n_layer"), kinds),
        **kinds,
        layers=_whole(text, "num_hidden_layers", "n_layer"),
        hidden_size=hidden,
        ffn_size=_whole(text, "intermediate_size", "n_inner"),
        heads=heads,
        kv_heads=_whole(text, "num_key_value_heads") or heads,
        head_dim=_whole(text, "head_dim") or (hidden // heads if hidden and heads else None),
        vocab_size=_whole(text, "vocab_size"),
        context_length=_whole(text, "max_position_embeddings", "n_positions"),
        tied_embeddings=_flag(text, "tie_word_embeddings"),
        quantisation=_quantisation(config, text),
        file_bytes=sum(file.stat().st_size for file in files) or None,
        has_chat_template=_has_template(directory),
    )


def _whole(config: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = config.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _flag(config: Mapping[str, Any], name: str) -> bool | None:
    value = config.get(name)
    return value if isinstance(value, bool) else None


def _quantisation(config: Mapping[str, Any], text: Mapping[str, Any]) -> str | None:
    method = config.get("quantization_config")
    names = [method.get("quant_method")] if isinstance(method, dict) else []
    names += [text.get("dtype"), text.get("torch_dtype")]
    return next((name for name in names if isinstance(name, str)), None)


def _parameters(files: list[Path], config: Mapping[str, Any]) -> int | None:
    if not files or isinstance(config.get("quantization_config"), dict):
        return None  # packed weights: their shapes do not count parameters
    return sum(tensor.elements for file in files for tensor in read_tensors(file).values())


def _active(parameters: int | None, hidden: int | None, layers: int | None, kinds: dict[str, int | None]) -> int | None:
    """Parameters less those of the experts that a token does not choose; each has three matrices (gate, up, down)."""
    experts, chosen, inner = (kinds[name] for name in ("experts", "experts_per_token", "expert_ffn_size"))
    if not (parameters and hidden and layers and experts and chosen and inner):
        return None
    routed = layers - (kinds["dense_layers"] or 0) - (kinds["plain_layers"] or 0)
    return parameters - routed * (experts - chosen) * 3 * hidden * inner


def _has_template(directory: Path) -> bool | None:
    if (directory / "chat_template.jinja").exists() or (directory / "chat_template.json").exists():
        return True
    tokenizer = directory / "tokenizer_config.json"
    return bool(read_object(tokenizer).get("chat_template")) if tokenizer.exists() else None
