"""What shape a drafter has: the z-lab ``config.json`` of DFlash and DFlash 2, read strictly and written whole.

Sources: the `dflash` package 0.1.0 (fields and defaults), SGLang's and vLLM's loaders (where each looks for them).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ..errors import InvalidDrafter

FULL = "full_attention"
SLIDING = "sliding_attention"

#: Top-level fields that say nothing a drafter depends on: for other programs, or about the target.
_IGNORED = frozenset(
    {
        "architectures",
        "auto_map",
        "bos_token_id",
        "dtype",
        "eos_token_id",
        "initializer_range",
        "max_window_layers",
        "model_type",
        "pad_token_id",
        "tie_word_embeddings",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "use_sliding_window",
    }
)
#: Fields with the only value that this architecture has.
_FIXED = {"hidden_act": "silu", "attention_dropout": 0.0}
_TOP = frozenset(
    {
        "attention_bias",
        "head_dim",
        "hidden_size",
        "intermediate_size",
        "is_causal",
        "layer_types",
        "max_position_embeddings",
        "num_attention_heads",
        "num_hidden_layers",
        "num_key_value_heads",
        "num_target_layers",
        "rms_norm_eps",
        "rope_parameters",
        "rope_scaling",
        "rope_theta",
        "sliding_window",
        "vocab_size",
    }
)
_EITHER = frozenset({"block_size"})
_INNER = frozenset(
    {
        "causal",
        "conv_group_size",
        "conv_kernel_size",
        "final_logit_softcapping",
        "input_embedding_scale",
        "mask_token_id",
        "output_multiplier",
        "sample_from_anchor",
        "selector_rank",
        "selector_top_k",
        "target_layer_ids",
    }
)
#: RoPE whose frequencies do not depend on how long the text is.
_ROPE = ("default", "linear", "llama3", "yarn")
_DFLASH2 = ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")


def default_layer_ids(target_layers: int, draft_layers: int) -> tuple[int, ...]:
    """The target layers that a drafter taps where nothing says otherwise: 0-based, post-layer.

    Evenly from layer 1 to ``target_layers - 3``, rounded half to even (`build_target_layer_ids` of z-lab); the middle
    layer for a drafter of one layer.
    """
    if draft_layers == 1:
        return (target_layers // 2,)
    span = target_layers - 4
    return tuple(round(1 + i * span / (draft_layers - 1)) for i in range(draft_layers))


@dataclass(frozen=True, kw_only=True)
class DraftConfig:
    """The shape of one drafter.

    Attributes:
        hidden_size: H, the target's own.
        intermediate_size: width of the SwiGLU.
        num_hidden_layers: N, layers of the drafter.
        num_attention_heads: query heads; ``num_key_value_heads`` divides it.
        num_key_value_heads: key and value heads.
        head_dim: d, width of one head; even.
        num_target_layers: layers of the target.
        vocab_size: rows of the target's embedding.
        mask_token_id: the row that stands for "not known yet": one that no text uses.
        target_layer_ids: the K tapped target layers, 0-based, post-layer, ascending.
        block_size: B, rows of a block, the anchor included.
        rms_norm_eps: epsilon of every norm.
        rope_theta: base of the rotary frequencies.
        rope_scaling: scaling of them as Hugging Face writes it (``rope_type``, ``factor``, ...), None for none.
        max_position_embeddings: longest position it is meant for, in tokens.
        layer_types: :data:`FULL` or :data:`SLIDING` for each layer.
        sliding_window: keys that a sliding layer's row sees, itself included; None where no layer slides.
        is_causal: whether rows of a block see later rows: False yes, True no, None only in full layers (z-lab's rule).
        attention_bias: whether the attention's projections have a bias.
        conv_kernel_size: taps of the dynamic convolutions (DFlash 2), None for plain DFlash.
        conv_group_size: channels that share a dynamic correction (DFlash 2).
        selector_rank: width of the candidate selector's codebooks (DFlash 2).
        selector_top_k: candidates per slot (DFlash 2).
        output_multiplier: factor of the draft's logits.
        final_logit_softcapping: cap of them by tanh, after the factor; None for none.
        input_embedding_scale: factor of the block's embeddings (Gemma-style targets scale theirs).
    """

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    num_target_layers: int
    vocab_size: int
    mask_token_id: int
    target_layer_ids: tuple[int, ...]
    block_size: int = 16
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0
    rope_scaling: Mapping[str, Any] | None = None
    max_position_embeddings: int = 32_768
    layer_types: tuple[str, ...] = ()
    sliding_window: int | None = None
    is_causal: bool | None = None
    attention_bias: bool = False
    conv_kernel_size: int | None = None
    conv_group_size: int | None = None
    selector_rank: int | None = None
    selector_top_k: int | None = None
    output_multiplier: float = 1.0
    final_logit_softcapping: float | None = None
    input_embedding_scale: float = 1.0

    def __post_init__(self) -> None:
        """Complete ``layer_types``, then check.

        Raises:
            InvalidDrafter: the values contradict one another.
        """
        _refuse_mistyped(vars(self))
        object.__setattr__(self, "layer_types", tuple(self.layer_types) or (FULL,) * self.num_hidden_layers)
        object.__setattr__(self, "target_layer_ids", tuple(self.target_layer_ids))
        for wrong in _contradictions(self):
            raise InvalidDrafter("The drafter's config.json contradicts itself", why=wrong)

    @property
    def is_dflash2(self) -> bool:
        """Whether it has the convolutions and the candidate selector of DFlash 2."""
        return self.conv_kernel_size is not None

    @property
    def architecture(self) -> str:
        """The class name that engines look up."""
        return "DFlash2DraftModel" if self.is_dflash2 else "DFlashDraftModel"

    def window(self, layer: int) -> int | None:
        """Keys that a row of ``layer`` sees, itself included; None for all."""
        return self.sliding_window if self.layer_types[layer] == SLIDING else None

    def causal(self, layer: int) -> bool:
        """Whether a row of ``layer`` sees only itself and earlier rows of its block."""
        return self.layer_types[layer] == SLIDING if self.is_causal is None else self.is_causal

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> DraftConfig:
        """Read a ``config.json``.

        Raises:
            InvalidDrafter: a field is unknown or missing, of another architecture, or contradicts another.
        """
        inner = document.get("dflash_config") or {}
        if not isinstance(inner, Mapping):
            raise InvalidDrafter(
                "The drafter's config.json has a value that cannot be", why="dflash_config is no object"
            )
        _refuse_unknown(document, inner)
        values = {name: document[name] for name in _TOP - {"rope_parameters"} if document.get(name) is not None}
        values |= {name: inner[name] for name in _INNER | _EITHER if inner.get(name) is not None}
        if "block_size" not in values and document.get("block_size") is not None:
            values["block_size"] = document["block_size"]
        values |= _rope(document)
        if values.pop("sample_from_anchor", False):
            raise InvalidDrafter("The drafter samples from its anchor", why="DFlash and DFlash 2 never do; DSpark does")
        causal = values.pop("causal", None)
        values.setdefault("is_causal", causal)
        _refuse_mistyped(values)
        if not {"hidden_size", "num_attention_heads"} - values.keys():
            values.setdefault("head_dim", values["hidden_size"] // values["num_attention_heads"])
        if not {"num_target_layers", "num_hidden_layers"} - values.keys():
            ids = default_layer_ids(values["num_target_layers"], values["num_hidden_layers"])
            values.setdefault("target_layer_ids", ids)
        try:
            return cls(**values)
        except TypeError as error:
            missing = str(error).partition("argument")[2].lstrip("s: ")
            raise InvalidDrafter("The drafter's config.json lacks a field", why=f"there is no {missing}") from None

    @classmethod
    def read(cls, directory: Path) -> DraftConfig:
        """Read ``config.json`` of a drafter's directory.

        Raises:
            InvalidDrafter: there is none, it is no JSON object, or as in :meth:`parse`.
        """
        file = directory / "config.json"
        try:
            document = json.loads(file.read_text())
        except OSError as error:
            why = f"config.json: {error.strerror}"
            raise InvalidDrafter(f"No drafter can be read in {directory}", why=why) from None
        except ValueError:
            raise InvalidDrafter(f"No drafter can be read in {directory}", why="config.json is no JSON") from None
        if not isinstance(document, dict):
            raise InvalidDrafter(f"No drafter can be read in {directory}", why="config.json is no JSON object")
        return cls.parse(document)

    def emit(self) -> dict[str, Any]:
        """The ``config.json`` that SGLang and vLLM load; :meth:`parse` reads it back equal."""
        values = asdict(self)
        inner = {name: values[name] for name in ("mask_token_id", "target_layer_ids")}
        inner["target_layer_ids"] = list(self.target_layer_ids)
        if self.is_dflash2:
            inner |= {name: values[name] for name in _DFLASH2}
        for name, usual in (
            ("output_multiplier", 1.0),
            ("final_logit_softcapping", None),
            ("input_embedding_scale", 1),
        ):
            if values[name] != usual:
                inner[name] = values[name]
        if self.is_causal is not None:
            inner["causal"] = self.is_causal  # vLLM looks here, SGLang at the top level
        top = {name: values[name] for name in sorted(_TOP - {"rope_parameters"})} | {
            "layer_types": list(self.layer_types),
            "use_sliding_window": SLIDING in self.layer_types,  # or transformers drops the window
            "rope_scaling": dict(self.rope_scaling) if self.rope_scaling else None,
        }
        if self.is_causal is None:
            del top["is_causal"]
        return {
            "architectures": [self.architecture],
            "model_type": "qwen3",
            "dtype": "bfloat16",
            "hidden_act": "silu",
            "tie_word_embeddings": False,
            **top,
            "block_size": self.block_size,
            "dflash_config": inner,
        }


def _is_count(value: object, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _refuse_mistyped(values: Mapping[str, Any]) -> None:
    """Refuse the first value that is not of its field's kind; counts are at least 1."""
    for one in fields(DraftConfig):
        value, (kind, _, rest) = values.get(one.name), str(one.type).partition(" | ")
        if one.name not in values or (value is None and rest):
            continue
        holds = {
            "int": _is_count(value, 0 if one.name == "mask_token_id" else 1),
            "float": isinstance(value, (int, float)) and not isinstance(value, bool),
            "bool": isinstance(value, bool),
            "Mapping[str, Any]": isinstance(value, Mapping),
            "tuple[int, ...]": isinstance(value, (list, tuple)) and all(_is_count(entry, 0) for entry in value),
            "tuple[str, ...]": isinstance(value, (list, tuple)) and all(isinstance(entry, str) for entry in value),
        }[kind]
        if not holds:
            raise InvalidDrafter("The drafter's config.json has a value that cannot be", why=f"{one.name} is {value!r}")


def _contradictions(config: DraftConfig) -> list[str]:
    ids, dflash2 = config.target_layer_ids, [getattr(config, name) for name in _DFLASH2]
    checks = [
        (config.num_attention_heads % config.num_key_value_heads == 0, "num_key_value_heads divides the heads"),
        (config.head_dim % 2 == 0, "head_dim is even"),
        (config.block_size >= 2, "block_size is at least 2"),
        (0 <= config.mask_token_id < config.vocab_size, "mask_token_id is a row of the vocabulary"),
        (len(config.layer_types) == config.num_hidden_layers, "layer_types has one entry a layer"),
        (set(config.layer_types) <= {FULL, SLIDING}, f"layer_types are {FULL} or {SLIDING}"),
        (SLIDING not in config.layer_types or bool(config.sliding_window), "sliding layers have a sliding_window"),
        (bool(ids) and list(ids) == sorted(set(ids)), "target_layer_ids ascend"),
        (bool(ids) and ids[0] >= 0 and ids[-1] < config.num_target_layers, "target_layer_ids are layers of the target"),
        (all(dflash2) or not any(dflash2), f"DFlash 2 has all of {', '.join(_DFLASH2)}"),
        (config.hidden_size % (config.conv_group_size or 1) == 0, "conv_group_size divides hidden_size"),
    ]
    return [f"it does not hold that {rule}" for holds, rule in checks if not holds]


def _refuse_unknown(document: Mapping[str, Any], inner: Mapping[str, Any]) -> None:
    unknown = sorted(set(document) - _TOP - _EITHER - _IGNORED - _FIXED.keys() - {"dflash_config"})
    unknown += sorted(f"dflash_config.{name}" for name in set(inner) - _INNER - _EITHER)
    if unknown:
        raise InvalidDrafter(
            "The drafter's config.json has fields that are not known here",
            why=", ".join(unknown),
            remedy="Remove them if they are misspelt; a drafter of another architecture cannot be used.",
        )
    for name, value in _FIXED.items():
        if document.get(name, value) != value:
            raise InvalidDrafter(
                "The drafter's config.json asks for another architecture", why=f"{name} is not {value}"
            )


def _rope(document: Mapping[str, Any]) -> dict[str, Any]:
    """Base and scaling from ``rope_parameters`` (transformers 5) or from ``rope_theta`` and ``rope_scaling``."""
    given = document.get("rope_parameters") or document.get("rope_scaling") or {}
    theta = document.get("rope_theta")
    if not isinstance(given, Mapping):
        raise InvalidDrafter("The drafter's config.json has a value that cannot be", why=f"its RoPE is {given!r}")
    parameters = dict(given)
    kind = parameters.pop("rope_type", parameters.pop("type", "default"))
    theta = parameters.pop("rope_theta", theta)
    partial = parameters.get("rope_dim") or parameters.get("partial_rotary_factor", 1.0) != 1.0
    if partial or "mrope_section" in parameters:
        raise InvalidDrafter(
            "The drafter's RoPE is not the one of DFlash",
            why="it turns whole heads by one position: no partial or M-RoPE",
        )
    if kind not in _ROPE:
        raise InvalidDrafter("The drafter's RoPE is not known here", why=f"rope_type is {kind!r}, not of {_ROPE}")
    found: dict[str, Any] = {"rope_scaling": None if kind == "default" else {"rope_type": kind, **parameters}}
    return found if theta is None else found | {"rope_theta": theta}
