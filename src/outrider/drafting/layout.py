"""The tensors of a DFlash drafter in z-lab's format: every name and shape that its ``config.json`` implies.

Engines look tensors up by name and do not say when one is missing: SGLang skips unknown names, and what was not loaded
stays noise. So every export is held to this table in both directions.

Source: z-lab/dflash 0.1.0 ``dflash/model.py``; DFlash 2: sglang PR #35371.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.errors import DrafterUnfit, WeightsUnreadable
from outrider.models.safetensors import read_object

Shapes = Mapping[str, tuple[int, ...]]
"""Tensor name → shape, outermost dimension first."""

WEIGHTS = "model.safetensors"
"""The file with a drafter's weights, beside its ``config.json``."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What a ``config.json`` of z-lab's format says of the tensors.

    Attributes:
        hidden: width, the same as the target's.
        ffn: inner width of the feed-forward network.
        layers, heads, kv_heads, head_dim: of the drafter's own blocks.
        taps: target layers that are read, 0-based, the output of that layer.
        vocab: entries of the target's embedding.
        block_size: slots of a pass, the anchor included.
        mask_token_id: of the slots that it fills.
        taps_of_convolution, group: of DFlash 2's convolutions; 0: it is a plain DFlash.
        rank, candidates: of DFlash 2's selector; 0: none.
        config: the object itself.
    """

    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    taps: tuple[int, ...]
    vocab: int
    block_size: int
    mask_token_id: int
    taps_of_convolution: int
    group: int
    rank: int
    candidates: int
    config: Mapping[str, Any]

    @property
    def second(self) -> bool:
        """Whether it is a DFlash 2."""
        return bool(self.rank)

    @property
    def shapes(self) -> Shapes:
        """Every tensor it has."""
        hidden, vocab = self.hidden, self.vocab
        found: dict[str, tuple[int, ...]] = {
            "fc.weight": (hidden, len(self.taps) * hidden),
            "hidden_norm.weight": (hidden,),
            "norm.weight": (hidden,),
        }
        for index in range(self.layers):
            found |= {f"layers.{index}.{name}": shape for name, shape in self._layer().items()}
        if self.second:
            found |= {
                "candidate_selector.predecessor_codebook": (vocab, self.rank),
                "candidate_selector.successor_codebook": (vocab, self.rank),
                "candidate_selector.hidden_projection.weight": (self.rank, hidden),
            }
        return found

    def _layer(self) -> Shapes:
        hidden, inner = self.hidden, self.ffn
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        found: dict[str, tuple[int, ...]] = {
            "input_layernorm.weight": (hidden,),
            "post_attention_layernorm.weight": (hidden,),
            "self_attn.q_proj.weight": (queries, hidden),
            "self_attn.k_proj.weight": (keys, hidden),
            "self_attn.v_proj.weight": (keys, hidden),
            "self_attn.o_proj.weight": (hidden, queries),
            "self_attn.q_norm.weight": (self.head_dim,),
            "self_attn.k_norm.weight": (self.head_dim,),
            "mlp.gate_proj.weight": (inner, hidden),
            "mlp.up_proj.weight": (inner, hidden),
            "mlp.down_proj.weight": (hidden, inner),
        }
        if self.second:
            taps = self.taps_of_convolution
            for part in ("attention_conv", "mlp_conv"):
                found[f"{part}.base_kernel"] = (2, taps, hidden)
                found[f"{part}.kernel_projection.weight"] = (2 * taps * (hidden // self.group), hidden)
        return found


def read_layout(directory: Path) -> Layout:
    """The layout of a drafter's directory.

    Raises:
        WeightsUnreadable: no ``config.json``, or it lacks what the tensors' shapes follow from.
    """
    return layout_of(read_object(directory / "config.json", "Give a directory with the drafter's config.json."))


def layout_of(config: Mapping[str, Any]) -> Layout:
    """The layout that a ``config.json`` of z-lab's format implies. Raises WeightsUnreadable."""
    own = config.get("dflash_config")
    own = own if isinstance(own, dict) else {}
    try:
        return Layout(
            hidden=int(config["hidden_size"]),
            ffn=int(config["intermediate_size"]),
            layers=int(config["num_hidden_layers"]),
            heads=int(config["num_attention_heads"]),
            kv_heads=int(config["num_key_value_heads"]),
            head_dim=int(config["head_dim"]),
            taps=tuple(int(layer) for layer in own["target_layer_ids"]),
            vocab=int(config["vocab_size"]),
            block_size=int(config.get("block_size") or own["block_size"]),
            mask_token_id=int(own["mask_token_id"]),
            taps_of_convolution=int(own.get("conv_kernel_size") or 0),
            group=int(own.get("conv_group_size") or 0),
            rank=int(own.get("selector_rank") or 0),
            candidates=int(own.get("selector_top_k") or 0),
            config=dict(config),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise WeightsUnreadable(
            "The drafter's config.json is none of z-lab's format",
            why=f"it lacks {error.args[0]!r}" if isinstance(error, KeyError) else str(error),
            remedy="Give a DFlash drafter; outrider drafter inspect says what the directory holds.",
        ) from error


def check_shapes(found: Shapes, expected: Shapes, *, where: str) -> None:
    """Refuse unless both name the same tensors with the same shapes.

    Raises:
        DrafterUnfit: says which are missing, which nobody asked for, and which have another shape.
    """
    wrong = [f"it lacks {name}" for name in sorted(expected.keys() - found.keys())]
    wrong += [f"nobody reads its {name}" for name in sorted(found.keys() - expected.keys())]
    wrong += [
        f"{name} is {_shown(found[name])}, not {_shown(expected[name])}"
        for name in sorted(found.keys() & expected.keys())
        if tuple(found[name]) != tuple(expected[name])
    ]
    if wrong:
        more = f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise DrafterUnfit(
            f"The tensors of {where} are not those of its config.json",
            why="; ".join(wrong[:3]) + more,
            remedy="Export it again from a whole checkpoint.",
            details={"wrong": wrong},
        )


def read_weights(directory: Path, layout: Layout) -> dict[str, Any]:
    """The drafter's tensors (``torch.Tensor`` on the CPU), by z-lab's names, checked against the layout.

    Raises:
        WeightsUnreadable: no safetensors. DrafterUnfit: names or shapes are not the layout's.
    """
    from safetensors.torch import load_file

    files = sorted(directory.glob("*.safetensors"))
    if not files:
        raise WeightsUnreadable(f"{directory} holds no safetensors", remedy="Give the drafter's directory.")
    found = {name.removeprefix("model."): tensor for file in files for name, tensor in load_file(file).items()}
    check_shapes(shapes_of(found.items()), layout.shapes, where=str(directory))
    return found


def shapes_of(tensors: Iterable[tuple[str, Any]]) -> Shapes:
    """Names and shapes of tensors."""
    return {name: tuple(tensor.shape) for name, tensor in tensors}


def write_directory(target: Path, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    """A directory with ``config.json`` and one safetensors file; it appears whole or not at all.

    Raises:
        DrafterUnfit: there is something at ``target`` already.
    """
    from safetensors.torch import save_file

    refuse_existing(target)
    partial = target.with_name(f"{target.name}.partial")
    partial.mkdir(parents=True)
    (partial / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    whole = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(whole, partial / WEIGHTS, metadata={"format": "pt"})
    partial.rename(target)


def refuse_existing(target: Path) -> None:
    """Raises DrafterUnfit if something lies at ``target``: an export overwrites nothing."""
    if target.exists():
        raise DrafterUnfit(f"There is something at {target} already", remedy="Name another place, or move it away.")


def _shown(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))
