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

from outrider.drafting import checkpoint
from outrider.drafting.config import SLIDING, DraftConfig
from outrider.drafting.exporting import refuse_existing
from outrider.errors import DrafterUnfit, InvalidDrafter, InvalidInput
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
_LATTICE = "llama.cpp holds a selector's candidates in one row of the drafter, which is too narrow for them"

Value = int | float | bool | list[int] | list[bool]
"""What llama.cpp is told under one key."""


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
        report: called with bytes converted, and all of them as they are read.

    Raises:
        InvalidInput: an unknown quantisation. WeightsUnreadable: the target's file is damaged or missing.
        InvalidDrafter: the drafter's files are not whole, or ask for what llama.cpp does not have.
        DrafterUnfit: the target's vocabulary or width is another, or ``target`` exists.
    """
    if quantisation not in QUANTISATIONS:
        raise InvalidInput(
            f"There is no quantisation {quantisation!r} of drafters", remedy=f"Say one of {', '.join(QUANTISATIONS)}."
        )
    refuse_existing(target)
    config = DraftConfig.read(source)
    _refuse_unfit(config, target_model)
    weights = checkpoint.load(source).state_dict()
    partial = target.with_name(f"{target.name}.partial")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _write(partial, config, weights, target_model, quantisation, report, name=source.name)
        found = {tensor.name: tuple(reversed(tensor.shape)) for tensor in read_header(partial).tensors}
        if found != {gguf_name(name): shape for name, shape in checkpoint.shapes(config).items()}:
            raise InvalidDrafter(f"{target.name} was not written whole", remedy="Export it again.")
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


def metadata(config: DraftConfig) -> Mapping[str, Value]:
    """What llama.cpp is told beside the tokenizer: keys without the architecture, and values."""
    told: dict[str, Value] = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": config.head_dim,
        "attention.value_length": config.head_dim,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": config.rope_theta,
        "rope.dimension_count": config.head_dim,
        "block_size": config.block_size,
        # llama.cpp names the layer that reads the state, z-lab the one whose output it is.
        "target_layers": [layer + 1 for layer in config.target_layer_ids],
        # Absent it would mean true: the anchor's slot would be taken for a draft.
        "sample_from_anchor": False,
    }
    if SLIDING in config.layer_types:
        told["attention.sliding_window"] = int(config.sliding_window or 0)
        told["attention.sliding_window_pattern"] = [kind == SLIDING for kind in config.layer_types]
    if config.output_multiplier != 1.0:
        told["logit_scale"] = config.output_multiplier
    if config.final_logit_softcapping is not None:
        told["final_logit_softcapping"] = config.final_logit_softcapping
    if config.is_dflash2:
        told |= {
            "conv_kernel_size": int(config.conv_kernel_size or 0),
            "conv_group_size": int(config.conv_group_size or 0),
            "selector_rank": int(config.selector_rank or 0),
            "selector_top_k": int(config.selector_top_k or 0),
        }
    return told


def _refuse_unfit(config: DraftConfig, target_model: Path) -> None:
    known = read_header(target_model).metadata
    width = known.get(f"{known.get('general.architecture')}.embedding_length")
    words = known.get("tokenizer.ggml.tokens")
    for wrong, why in (
        (width != config.hidden_size, f"it reads states of {config.hidden_size} numbers, the target's have {width}"),
        (words is None, "the target's file has no tokenizer"),
        (words != config.vocab_size, f"it counts on {config.vocab_size} tokens, the target has {words}"),
    ):
        if wrong:
            raise DrafterUnfit(f"The drafter does not fit {target_model.name}", why=why)
    most = config.selector_top_k or 0
    for wrong, why in (
        (config.rope_scaling is not None, "its rotary embedding is scaled, which is not written here"),
        (config.attention_bias, "its attention has biases"),
        (config.input_embedding_scale != 1.0, "it scales the embeddings that it reads"),
        (any(config.causal(layer) for layer in range(config.num_hidden_layers)), "its layers are causal in a block"),
        (config.hidden_size < most * (most + 1), _LATTICE),
    ):
        if wrong:
            raise InvalidDrafter("The drafter has no GGUF form", why=why, remedy="Serve it with vLLM or SGLang.")


def _write(
    path: Path,
    config: DraftConfig,
    weights: Mapping[str, Any],
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
    for key, value in metadata(config).items():
        _add(writer, f"{_ARCHITECTURE}.{key}", value)
    _copy_tokenizer(writer, target_model)
    writer.add_uint32("tokenizer.ggml.mask_token_id", config.mask_token_id)
    total, done = sum(tensor.nbytes for tensor in weights.values()), 0
    for tensor_name, tensor in weights.items():
        values = tensor.float().numpy()
        kind = _type(tensor_name, values.shape, quantisation)
        writer.add_tensor(gguf_name(tensor_name), gguf.quants.quantize(values, kind), raw_dtype=kind)
        done += tensor.nbytes
        report(done, total)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add(writer: Any, key: str, value: Value) -> None:
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
