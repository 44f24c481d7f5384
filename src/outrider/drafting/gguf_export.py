"""A drafter as one GGUF file, which llama.cpp loads beside its target.

``general.architecture`` is ``dflash``; there is no embedding and no head, which are the target's; the tokenizer is the
target's, too, copied from its GGUF. Rotary embeddings are rotate-half there as here, so no row of q and k moves.

Source: llama.cpp ``src/models/dflash.cpp`` and PR #27342 (DFlash 2), as in xllamacpp 2026.10.11549.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from outrider.drafting.layout import Layout, check_shapes, read_layout, read_weights, refuse_existing
from outrider.errors import DrafterUnfit, InvalidInput
from outrider.models.gguf import read_header

QUANTISATIONS = ("F16", "Q8_0")
"""Types of the matrices; vectors and convolution kernels are F32, since llama.cpp adds them to F32 results."""
_BLOCK = 32
"""Numbers of one Q8_0 block; a matrix whose rows are no multiple of it stays F16."""
_ARCHITECTURE = "dflash"
_WHOLE = {
    "fc.weight": "fc.weight",
    "hidden_norm.weight": "enc.output_norm.weight",
    "norm.weight": "output_norm.weight",
    "candidate_selector.predecessor_codebook": "selector_predecessor.weight",
    "candidate_selector.successor_codebook": "selector_successor.weight",
    "candidate_selector.hidden_projection.weight": "selector_hidden.weight",
}
_LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "attention_conv.base_kernel": "attn_conv_base",
    "attention_conv.kernel_projection.weight": "attn_conv_proj.weight",
    "mlp_conv.base_kernel": "ffn_conv_base",
    "mlp_conv.kernel_projection.weight": "ffn_conv_proj.weight",
}
"""z-lab's names → llama.cpp's; those of a layer stand behind ``layers.i.`` and ``blk.i.``."""


def export_gguf(
    source: Path,
    target: Path,
    *,
    target_model: Path,
    quantisation: str = "Q8_0",
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Write a drafter as GGUF.

    Args:
        source: its directory, in z-lab's format.
        target: the file to write; it appears whole or not at all.
        target_model: the GGUF of the model that it drafts for; its tokenizer is copied.
        quantisation: one of :data:`QUANTISATIONS`.
        report: called with tensors written and all of them.

    Raises:
        InvalidInput: an unknown quantisation. WeightsUnreadable: a file is damaged or missing.
        DrafterUnfit: its tensors are not its config's, the target's vocabulary or width is another, its rotary
            embedding is scaled, or ``target`` exists.
    """
    if quantisation not in QUANTISATIONS:
        raise InvalidInput(
            f"There is no quantisation {quantisation!r} of drafters", remedy=f"Say one of {', '.join(QUANTISATIONS)}."
        )
    refuse_existing(target)
    layout = read_layout(source)
    _refuse_unfit(layout, target_model)
    tensors = read_weights(source, layout)
    partial = target.with_name(f"{target.name}.partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _write(partial, layout, tensors, target_model, quantisation, report, name=source.name)
        found = {tensor.name: tuple(reversed(tensor.shape)) for tensor in read_header(partial).tensors}
        check_shapes(found, {gguf_name(name): shape for name, shape in layout.shapes.items()}, where=str(target))
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return target


def gguf_name(name: str) -> str:
    """llama.cpp's name of a tensor that z-lab calls ``name``."""
    if not name.startswith("layers."):
        return _WHOLE[name]
    _, index, part = name.split(".", 2)
    return f"blk.{index}.{_LAYER[part]}"


def metadata(layout: Layout) -> Mapping[str, int | float | bool | list[int] | list[bool]]:
    """What llama.cpp is told beside the tokenizer: keys without the architecture, and values."""
    config = layout.config
    told: dict[str, int | float | bool | list[int] | list[bool]] = {
        "block_count": layout.layers,
        "context_length": int(config["max_position_embeddings"]),
        "embedding_length": layout.hidden,
        "feed_forward_length": layout.ffn,
        "attention.head_count": layout.heads,
        "attention.head_count_kv": layout.kv_heads,
        "attention.key_length": layout.head_dim,
        "attention.value_length": layout.head_dim,
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        "rope.freq_base": _rope_theta(config),
        "rope.dimension_count": layout.head_dim,
        "block_size": layout.block_size,
        # llama.cpp names the layer that reads the state, z-lab the one whose output it is.
        "target_layers": [layer + 1 for layer in layout.taps],
        # Absent it would mean true: the anchor's slot would be taken for a draft.
        "sample_from_anchor": False,
    }
    kinds = config.get("layer_types") or []
    if "sliding_attention" in kinds:
        told["attention.sliding_window"] = int(config["sliding_window"])
        told["attention.sliding_window_pattern"] = [kind == "sliding_attention" for kind in kinds]
    if layout.second:
        told |= {
            "conv_kernel_size": layout.taps_of_convolution,
            "conv_group_size": layout.group,
            "selector_rank": layout.rank,
            "selector_top_k": layout.candidates,
        }
    return told


def _refuse_unfit(layout: Layout, target_model: Path) -> None:
    header = read_header(target_model)
    known = header.metadata
    width = known.get(f"{known.get('general.architecture')}.embedding_length")
    words = known.get("tokenizer.ggml.tokens")
    rope = layout.config.get("rope_scaling") or layout.config.get("rope_parameters") or {}
    scaled = rope.get("rope_type", rope.get("type", "default")) != "default"
    for wrong, why in (
        (width != layout.hidden, f"it reads states of {layout.hidden} numbers, the target's have {width}"),
        (words != layout.vocab, f"it counts on {layout.vocab:,} tokens, the target has {words:,}" if words else ""),
        (scaled, "its rotary embedding is scaled, which is not exported to GGUF"),
    ):
        if wrong:
            raise DrafterUnfit(f"The drafter does not fit {target_model.name}", why=why or "it has no tokenizer")


def _write(
    path: Path,
    layout: Layout,
    tensors: Mapping[str, Any],
    target_model: Path,
    quantisation: str,
    report: Callable[[int, int], None],
    *,
    name: str,
) -> None:
    import gguf

    writer = gguf.GGUFWriter(os.fspath(path), _ARCHITECTURE)
    writer.add_name(name)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16 if quantisation == "F16" else gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    for key, value in metadata(layout).items():
        _add(writer, f"{_ARCHITECTURE}.{key}", value)
    _copy_tokenizer(writer, target_model)
    writer.add_uint32("tokenizer.ggml.mask_token_id", layout.mask_token_id)
    for done, (tensor_name, tensor) in enumerate(tensors.items(), 1):
        values = tensor.float().numpy()
        kind = _type(tensor_name, values.shape, quantisation)
        data = gguf.quants.quantize(values, kind)
        writer.add_tensor(gguf_name(tensor_name), data, raw_dtype=kind)
        report(done, len(tensors))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add(writer: Any, key: str, value: int | float | bool | list[int] | list[bool]) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_array(key, value)


def _copy_tokenizer(writer: Any, target_model: Path) -> None:
    """Every ``tokenizer.…`` entry of the target but its chat template, which only the target's server applies."""
    import gguf

    for field in gguf.GGUFReader(os.fspath(target_model)).fields.values():
        if not field.name.startswith("tokenizer.") or field.name in _OWN:
            continue
        kind, *inner = field.types
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner[-1] if inner else None)


_OWN = ("tokenizer.chat_template", "tokenizer.ggml.mask_token_id")


def _type(name: str, shape: tuple[int, ...], quantisation: str) -> Any:
    from gguf import GGMLQuantizationType

    if len(shape) == 1 or name.endswith("base_kernel"):
        return GGMLQuantizationType.F32
    if quantisation == "Q8_0" and shape[-1] % _BLOCK == 0:
        return GGMLQuantizationType.Q8_0
    return GGMLQuantizationType.F16


def _rope_theta(config: Mapping[str, Any]) -> float:
    inner = config.get("rope_parameters") or {}
    return float(config.get("rope_theta") or inner["rope_theta"])
