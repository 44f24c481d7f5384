"""Facts of a drafter, read from its ``config.json`` and safetensors headers; what they say is judged elsewhere.

Three formats are read: z-lab's (``dflash_config``; DFlash, DFlash 2, LiLiCorr, Domino), speculators'
(``speculators_model_type``), and EAGLE-3's (``…Eagle3`` architectures). Everything else with an LM head is a plain
draft model. Layer ids come out in one convention whatever the file's: 0-based, the output of that layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from outrider.errors import WeightsUnreadable
from outrider.models.gguf import Header, read_header
from outrider.models.safetensors import Tensor, read_all, read_object

Format = Literal["z-lab", "speculators", "eagle3", "model", "gguf"]
Method = Literal["dflash", "dspark", "eagle3", "draft"]

_KINDS = {
    "DFlashDraftModel": "dflash",
    "DFlash2DraftModel": "dflash2",
    "DFlash2BeamDraftModel": "dflash2",
    "MiniMaxDFlash2DraftModel": "dflash2",
    "DFlashLagunaForCausalLM": "dflash",
    "LiLiCorrDraftModel": "lilicorr",
    "DFlashSpeculator": "dflash",
    "DSparkDraftModel": "dspark",
}
"""``architectures[0]`` → kind, of z-lab's format (sglang 0.5.23, ``srt/models/dflash.py``)."""
_METHODS: Mapping[str, Method] = {
    **dict.fromkeys(("dflash", "dflash2", "lilicorr", "domino", "xpress"), "dflash"),
    "dspark": "dspark",
    "eagle3": "eagle3",
    "peagle": "eagle3",
    "model": "draft",
}
KINDS = tuple(_METHODS)
"""Every kind of drafter that is told apart."""


@dataclass(frozen=True, slots=True)
class DrafterFacts:
    """What a drafter's files say. None: they do not say.

    Attributes:
        source: where it was read.
        format: whose layout of ``config.json`` it is.
        method: what an engine is told: ``dflash``, ``dspark``, ``eagle3`` or ``draft``.
        kind: the architecture within the method: ``dflash``, ``dflash2``, ``lilicorr``, ``domino``, ``eagle3``, ….
        architecture: ``architectures[0]``.
        hidden_size: width of its layers.
        target_hidden_size: width of the states that it reads; None: its own.
        layers: its blocks.
        target_layers: layers of the target that it was made for.
        taps: target layers whose outputs it reads, 0-based.
        written_taps: the same as the file writes them; speculators adds one.
        vocab_size: entries of the target's embedding that it counts on.
        draft_vocab_size: entries of its own head, where that is reduced.
        mask_token_id: of the slots that it fills.
        block_size: slots of a pass, the anchor included.
        rope_theta: base of its rotary embedding.
        mrope: it asks for the sectioned rotary embedding of multimodal targets.
        window: tokens that its sliding layers look back.
        window_layers: how many of them there are; None: the file lists no kinds.
        causal: whether a row sees only rows before it in its block.
        context_length: tokens it was trained for.
        quantisation: how its weights are quantised; None: they are not.
        sample_from_anchor: whether the anchor's slot predicts, too.
        verifier: the target that it names.
        modes: of the target that it was trained in; its recipe says.
        languages: likewise, by ISO 639-1 code.
        tensors: by name; empty where no safetensors lie beside the config.
    """

    source: str
    format: Format
    method: Method
    kind: str
    architecture: str
    hidden_size: int | None = None
    target_hidden_size: int | None = None
    layers: int | None = None
    target_layers: int | None = None
    taps: tuple[int, ...] | None = None
    written_taps: tuple[int, ...] | None = None
    vocab_size: int | None = None
    draft_vocab_size: int | None = None
    mask_token_id: int | None = None
    block_size: int | None = None
    rope_theta: float | None = None
    mrope: bool = False
    window: int | None = None
    window_layers: int | None = None
    causal: bool | None = None
    context_length: int | None = None
    quantisation: str | None = None
    sample_from_anchor: bool | None = None
    verifier: str | None = None
    modes: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None
    tensors: Mapping[str, Tensor] = field(default_factory=dict, repr=False)

    @property
    def parameters(self) -> int | None:
        """Numbers in its own tensors; None where these were not read."""
        return sum(tensor.elements for tensor in self.tensors.values()) or None


def read_drafter(path: Path) -> DrafterFacts:
    """The facts of a directory with a ``config.json`` (or of the one that holds the file), or of a DFlash as GGUF.

    Raises:
        WeightsUnreadable: no config, a damaged file, or a config that is no drafter's.
    """
    directory = path.parent if path.is_file() else path
    if path.suffix == ".gguf":
        return _gguf(path, read_header(path))
    config = read_object(directory / "config.json", "Give a directory with the drafter's config.json.")
    tensors = read_all(sorted(directory.glob("*.safetensors")))
    if isinstance(config.get("speculators_model_type"), str):
        return _speculators(directory, config, tensors)
    architecture = _architecture(config)
    if "eagle3" in architecture.lower():
        return _eagle3(directory, config, tensors)
    if isinstance(config.get("dflash_config"), dict) or architecture in _KINDS:
        return _zlab(directory, config, tensors)
    if not architecture:
        raise WeightsUnreadable(
            f"Cannot tell what drafter {directory.name} is",
            why="its config.json names no architectures and no speculators_model_type",
            remedy="Give a DFlash, EAGLE-3 or plain draft model.",
        )
    common = _common(directory, config, config, tensors)
    return DrafterFacts(format="model", method="draft", kind="model", **common)


def default_taps(target_layers: int, count: int) -> tuple[int, ...]:
    """The layers that z-lab's rule taps: evenly from layer 1 to the third last, rounded as Python does."""
    if count == 1:
        return (target_layers // 2,)
    step = (target_layers - 4) / (count - 1)
    return tuple(round(1 + index * step) for index in range(count))


def _zlab(directory: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> DrafterFacts:
    own = _object(config.get("dflash_config"))
    kind = _KINDS.get(_architecture(config), "dflash")
    if own.get("projector_type") == "domino":
        kind = "domino"
    elif own.get("lilicorr_enabled"):
        kind = "lilicorr"
    elif kind == "dflash" and _whole(own, "selector_rank"):
        kind = "dflash2"
    common = _common(directory, config, config, tensors)
    taps = _ids(own.get("target_layer_ids"))
    layers, depth = common["layers"], _whole(config, "num_target_layers")
    if taps is None and layers and depth:
        taps = default_taps(depth, layers)
    windows = {"window": _whole(own, "swa_window_size"), "window_layers": layers} if own.get("use_swa") else {}
    causal = config.get("is_causal", own.get("causal"))
    return DrafterFacts(
        format="z-lab",
        method=_METHODS[kind],
        kind=kind,
        **{**common, **windows},
        target_layers=depth,
        taps=taps,
        written_taps=_ids(own.get("target_layer_ids")),
        vocab_size=_whole(config, "vocab_size"),
        mask_token_id=_id(own.get("mask_token_id", config.get("mask_token_id"))),
        block_size=_whole(config, "block_size") or _whole(own, "block_size"),
        causal=causal if isinstance(causal, bool) else None,
        sample_from_anchor=_flag(own.get("sample_from_anchor", config.get("sample_from_anchor"))),
    )


def _speculators(directory: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> DrafterFacts:
    kind = str(config["speculators_model_type"]).replace("-", "").replace("_", "").lower()
    if kind not in _METHODS:
        raise WeightsUnreadable(
            f"Cannot tell what drafter {directory.name} is",
            why=f"speculators_model_type {config['speculators_model_type']!r} is none of {', '.join(_METHODS)}",
            remedy="Give a drafter of one of these kinds.",
        )
    inner = _object(config.get("transformer_layer_config"))
    written = _ids(config.get("aux_hidden_state_layer_ids", config.get("eagle_aux_hidden_state_layer_ids")))
    non_causal = _flag(config.get("sliding_window_non_causal"))
    verifier = _object(_object(config.get("speculators_config")).get("verifier"))
    name = verifier.get("name_or_path")
    return DrafterFacts(
        format="speculators",
        method=_METHODS[kind],
        kind=kind,
        **_common(directory, config, inner, tensors),
        target_hidden_size=_whole(config, "target_hidden_size"),
        taps=None if written is None else tuple(layer - 1 for layer in written),
        written_taps=written,
        vocab_size=_whole(inner, "vocab_size"),
        draft_vocab_size=_whole(config, "draft_vocab_size"),
        mask_token_id=_id(config.get("mask_token_id")),
        block_size=_whole(config, "block_size"),
        causal=None if non_causal is None else not non_causal,
        sample_from_anchor=_flag(config.get("sample_from_anchor")),
        verifier=name if isinstance(name, str) and name else None,
    )


def _eagle3(directory: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> DrafterFacts:
    inner = _object(config.get("eagle_config"))
    written = _ids(inner.get("eagle_aux_hidden_state_layer_ids", config.get("eagle_aux_hidden_state_layer_ids")))
    return DrafterFacts(
        format="eagle3",
        method="eagle3",
        kind="eagle3",
        **_common(directory, config, config, tensors),
        target_hidden_size=_whole(config, "target_hidden_size"),
        # Both engines count as speculators does: the id of the layer that would read the state.
        taps=None if written is None else tuple(layer - 1 for layer in written),
        written_taps=written,
        vocab_size=_whole(config, "vocab_size"),
        draft_vocab_size=_whole(config, "draft_vocab_size"),
    )


def _gguf(path: Path, header: Header) -> DrafterFacts:
    """llama.cpp's ``dflash``: it counts layers as speculators does."""
    known = header.metadata
    if known.get("general.architecture") != "dflash":
        raise WeightsUnreadable(
            f"{path.name} is no DFlash drafter",
            why=f"its architecture is {known.get('general.architecture')!r}",
            remedy="Make one with: outrider drafter export",
        )
    own = {key.removeprefix("dflash."): value for key, value in known.items() if key.startswith("dflash.")}
    written, pattern, theta = (
        _ids(own.get("target_layers")),
        own.get("attention.sliding_window_pattern"),
        own.get("rope.freq_base"),
    )
    stored = header.quantisation()
    return DrafterFacts(
        source=f"GGUF header of {path.name}",
        format="gguf",
        method="dflash",
        kind="dflash2" if _whole(own, "selector_rank") else "dflash",
        architecture="dflash",
        hidden_size=_whole(own, "embedding_length"),
        layers=_whole(own, "block_count"),
        taps=None if written is None else tuple(layer - 1 for layer in written),
        written_taps=written,
        vocab_size=_whole(known, "tokenizer.ggml.tokens"),
        mask_token_id=_id(known.get("tokenizer.ggml.mask_token_id")),
        block_size=_whole(own, "block_size"),
        rope_theta=float(theta) if isinstance(theta, int | float) and theta > 0 else None,
        window=_whole(own, "attention.sliding_window"),
        window_layers=sum(map(bool, pattern)) if isinstance(pattern, list) else None,
        context_length=_whole(own, "context_length"),
        quantisation=None if stored in (None, "F32", "F16", "BF16") else stored,
        sample_from_anchor=_flag(own.get("sample_from_anchor", True)),
    )


def _common(
    directory: Path, config: Mapping[str, Any], inner: Mapping[str, Any], tensors: Mapping[str, Tensor]
) -> dict[str, Any]:
    """What every format writes in the same words; ``inner`` holds the transformer's own."""
    kinds = inner.get("layer_types")
    listed = kinds if isinstance(kinds, list) else None
    rope = {**_object(inner.get("rope_parameters")), **_object(inner.get("rope_scaling"))}
    theta = inner.get("rope_theta", rope.get("rope_theta"))
    quantised = _object(config.get("quantization_config", config.get("compression_config")))
    return {
        "source": f"config.json of {directory.name}" + (" and its safetensors headers" if tensors else ""),
        "architecture": _architecture(config),
        "hidden_size": _whole(inner, "hidden_size"),
        "layers": _whole(inner, "num_hidden_layers"),
        "rope_theta": float(theta) if isinstance(theta, int | float) and theta > 0 else None,
        "mrope": "mrope_section" in rope or "mrope" in (rope.get("rope_type"), rope.get("type")),
        "window": _whole(inner, "sliding_window"),
        "window_layers": None if listed is None else sum(kind == "sliding_attention" for kind in listed),
        "context_length": _whole(inner, "max_position_embeddings"),
        "quantisation": str(quantised.get("quant_method") or "quantised") if quantised else None,
        "tensors": tensors,
    }


def _architecture(config: Mapping[str, Any]) -> str:
    listed = config.get("architectures")
    return str(listed[0]) if isinstance(listed, list) and listed else ""


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _id(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _ids(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not value or any(_id(item) is None for item in value):
        return None
    return tuple(value)


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _whole(config: Mapping[str, Any], name: str) -> int | None:
    value = _id(config.get(name))
    return value if value is not None and value > 0 else None
