"""Whether a drafter fits its target. Pure: facts in, findings out.

Almost every misfit is silent: answers stay right and only speed collapses, since the target corrects each draft. So
what can be told from the files is told before a replica is made. Each finding has where it was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from outrider.models.drafter import DrafterFacts, default_taps
from outrider.models.tokenizer import TokenizerFacts
from outrider.spec.facts import ModelFacts

Severity = Literal["refuse", "warn"]
_ZLAB = "https://github.com/z-lab/dflash"
_VLLM = "https://github.com/vllm-project/vllm"
_SGLANG = "https://github.com/sgl-project/sglang"
_PADDING = 1024
"""Rows by which tables of one tokenizer may differ: they are padded to what divides well among GPUs."""
_OFF_BY_ONE = f"{_VLLM}/pull/40727"


@dataclass(frozen=True, slots=True)
class Target:
    """What a drafter is held against.

    Attributes:
        facts: of the target's own files, or of its catalog entry.
        tokenizer: None: its files are not here.
        context: tokens that a request may hold; None: not known.
    """

    facts: ModelFacts
    tokenizer: TokenizerFacts | None = None
    context: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or may be.

    Attributes:
        field: what it is about: ``hidden_size``, ``layer_ids``, ``mask_id``, ….
        severity: ``refuse``: it cannot work, or drafts nothing that is accepted; ``warn``: it may.
        what: one line.
        remedy: one line, what to do.
        source: a URL that shows it.
    """

    field: str
    severity: Severity
    what: str
    remedy: str
    source: str


def check(drafter: DrafterFacts, target: Target, *, tokens: int | None = None) -> list[Finding]:
    """Everything that is wrong with a drafter for this target, refusals first.

    Args:
        tokens: drafted a step, without the bonus token; None: as many as it was trained for.
    """
    found: list[Finding] = []
    for one in _CHECKS:
        found += one(drafter, target)
    found += _block(drafter, tokens)
    return sorted(found, key=lambda finding: finding.severity != "refuse")


def refusals(findings: Sequence[Finding]) -> list[Finding]:
    """Those that forbid its use."""
    return [finding for finding in findings if finding.severity == "refuse"]


def _hidden_size(drafter: DrafterFacts, target: Target) -> Iterator[Finding]:
    reads, has = drafter.target_hidden_size or drafter.hidden_size, target.facts.hidden_size
    source = f"{_ZLAB}/blob/main/dflash/model.py"
    if drafter.method == "draft" or has is None or reads == has:
        return
    if reads is None:
        what = f"its config.json names no hidden_size, the target's states have {has:,} numbers"
        yield Finding("hidden_size", "refuse", what, "Add it to its config.json.", source)
        return
    what = f"it reads states of {reads:,} numbers, the target's have {has:,}"
    yield Finding("hidden_size", "refuse", what, "Use a drafter made for this target.", source)


def _depth(drafter: DrafterFacts, target: Target) -> Iterator[Finding]:
    made, has = drafter.target_layers, target.facts.layers
    if made is not None and has is not None and made != has:
        yield Finding(
            "layer_ids",
            "refuse",
            f"it was made for a target of {made} layers, this one has {has}",
            "Use a drafter made for this target.",
            f"{_ZLAB}/blob/main/dflash/model.py",
        )


def _layer_ids(drafter: DrafterFacts, target: Target) -> Iterator[Finding]:
    taps, layers = drafter.taps, target.facts.layers
    if taps is None:
        return
    shown = ", ".join(map(str, drafter.written_taps or taps))
    if list(taps) != sorted(set(taps)):
        yield _ids(drafter, f"its layer ids {shown} do not rise; states are read in that order")
    elif layers is not None and (taps[0] < 0 or taps[-1] >= layers):
        hint = f" ({_convention(drafter)})" if taps[0] == -1 or taps[-1] == layers else ""
        yield _ids(drafter, f"its layer ids {shown} leave the target's {layers} layers{hint}")
    elif layers is not None and drafter.method == "dflash":
        yield from _shifted(drafter, taps, layers, shown)


def _shifted(drafter: DrafterFacts, taps: tuple[int, ...], layers: int, shown: str) -> Iterator[Finding]:
    """Ids that are the usual ones, all moved by one: the two formats count differently."""
    usual = default_taps(layers, len(taps)) if layers > 4 else ()
    for shift in (1, -1):
        if len(taps) > 1 and taps == tuple(layer + shift for layer in usual):
            what = f"its layer ids {shown} are the usual ones of {layers} layers moved by one; {_convention(drafter)}"
            yield _ids(drafter, what, "warn")
    if taps[-1] == layers - 1:
        what = f"its layer ids {shown} name the last layer, whose output engines and trainers read differently"
        yield _ids(drafter, what, "warn")


def _convention(drafter: DrafterFacts) -> str:
    return (
        "speculators writes the id of the layer that reads the state, z-lab's plus one"
        if drafter.format in ("speculators", "eagle3", "gguf")
        else "z-lab writes the layer whose output is read, speculators' minus one"
    )


def _ids(drafter: DrafterFacts, what: str, severity: Severity = "refuse") -> Finding:
    name = "target_layer_ids" if drafter.format == "z-lab" else "aux_hidden_state_layer_ids"
    remedy = f"Correct {name} in its config.json; one off costs 3 to 16 % of what is accepted, or all of it."
    return Finding("layer_ids", severity, what, remedy, _OFF_BY_ONE)


def _mask(drafter: DrafterFacts, target: Target) -> Iterator[Finding]:
    if drafter.method != "dflash":
        return
    token, rows, known = drafter.mask_token_id, target.facts.vocab_size, target.tokenizer
    source = f"{_SGLANG}/issues/27924"
    if token is None:
        yield Finding("mask_id", "refuse", "it names no mask_token_id", "Add it to its config.json.", source)
        return
    if token < 0 or (rows is not None and token >= rows):
        what = f"its mask token {token} is none of the target's {rows:,} embedding rows"
        yield Finding("mask_id", "refuse", what, "Correct mask_token_id in its config.json.", source)
        return
    if known is None:
        return
    for role in ("eos", "pad"):
        if known.special.get(role) == token:
            what = f"its mask token {token} is the target's {role} token"
            yield Finding("mask_id", "refuse", what, "Train it with an unused row of the embedding.", source)
            return
    if known.ids is not None and token in known.ids and "mask" not in known.named.get(token, "").lower():
        what = f"its mask token {token} stands for a token of the target's vocabulary, so text can hold it"
        yield Finding("mask_id", "warn", what, "Train it with an unused row of the embedding.", source)


def _vocabulary(drafter: DrafterFacts, target: Target) -> Iterator[Finding]:
    made, rows = drafter.vocab_size, target.facts.vocab_size
    source = f"{_ZLAB}#readme"
    if made is not None and rows is not None and made != rows:
        known = target.tokenizer.size if target.tokenizer and target.tokenizer.ids is not None else None
        # Rows beyond the last token only pad the table; a drafter that covers every token can do without them.
        padded = known is not None and min(made, rows) >= known and abs(made - rows) <= _PADDING
        yield Finding(
            "vocabulary",
            "warn" if padded else "refuse",
            f"it counts on {made:,} tokens, the target has {rows:,}",
            "Use a drafter made for this target's tokenizer.",
            source,
        )
    own = drafter.draft_vocab_size
    if own is not None and rows is not None and own > rows:
        what = f"its own head has {own:,} tokens, more than the target's {rows:,}"
        yield Finding("vocabulary", "refuse", what, "Use a drafter made for this target.", source)
    reduced = own is not None and rows is not None and own < rows
    lacking = [name for name in ("d2t",) if drafter.tensors and name not in drafter.tensors]
    if reduced and lacking:
        what = f"its head has {own:,} of the target's {rows:,} tokens, and no tensor d2t says which"
        yield Finding("vocabulary", "refuse", what, "Export it again with d2t.", source)


def _rope(drafter: DrafterFacts, target: Target) -> Iterator[Finding]:
    if drafter.method == "draft":
        return
    if drafter.mrope:
        yield Finding(
            "rope",
            "warn",
            "its config.json inherits the target's M-RoPE; a drafter is trained with plain positions",
            "Take mrope_section out of its rope_scaling, if it was trained without.",
            "https://github.com/NVIDIA/Model-Optimizer/blob/main/examples/speculative_decoding/doc/dflash.md",
        )
    if drafter.rope_theta is None:
        yield Finding(
            "rope",
            "warn",
            "its config.json names no rope_theta, so an engine takes its own default",
            "Write the one it was trained with into its config.json.",
            f"{_ZLAB}/blob/main/dflash/model.py",
        )


def _window(drafter: DrafterFacts, target: Target) -> Iterator[Finding]:
    source = f"{_ZLAB}/issues/126"
    if drafter.window_layers and drafter.window is None:
        what = f"{drafter.window_layers} of its layers slide, and no sliding_window says how far they look"
        yield Finding("window", "refuse", what, "Write sliding_window into its config.json.", source)
    elif drafter.window_layers and drafter.method == "dflash" and drafter.causal is None:
        yield Finding(
            "window",
            "warn",
            "its config.json does not say whether its sliding layers are causal inside a block; engines take them so",
            "Write is_causal (SGLang) and dflash_config.causal (vLLM) into its config.json.",
            source,
        )
    elif drafter.window is not None and drafter.window_layers is None and drafter.method == "dflash":
        what = f"it names a window of {drafter.window:,} and no layer_types, so every layer is served without one"
        yield Finding("window", "warn", what, "Write layer_types into its config.json.", source)
    made, asked = drafter.context_length, target.context
    if made is not None and asked is not None and asked > made:
        what = f"it goes to {made:,} tokens, a request may hold {asked:,}; engines were seen to refuse it, or to end"
        remedy = f"Set flags.context to {made:,} or less, or drafter to off."
        yield Finding("context", "warn", what, remedy, "https://github.com/ggml-org/llama.cpp/pull/22105")


def _block(drafter: DrafterFacts, tokens: int | None) -> Iterator[Finding]:
    size, source = drafter.block_size, f"{_ZLAB}/issues/118"
    if drafter.method != "dflash":
        return
    if size is None:
        what = "its config.json names no block_size; engines then take 16"
        yield Finding("block_size", "warn", what, "Write the one it was trained with into its config.json.", source)
    elif size < 2:
        what = f"a block of {size} drafts nothing: its first slot is the anchor"
        yield Finding("block_size", "refuse", what, "Correct block_size in its config.json.", source)
    elif tokens is not None and tokens > size - 1:
        what = f"{tokens} tokens a step are more than a block of {size} drafts; it was not trained for them"
        yield Finding("block_size", "refuse", what, f"Draft {size - 1} or fewer.", source)
    if drafter.sample_from_anchor:
        what = "its anchor slot predicts, too; a DFlash loader takes the slots after it only"
        yield Finding("block_size", "refuse", what, "Serve it as DSpark, or train it without.", f"{_VLLM}/pull/46995")


def _modes(drafter: DrafterFacts, target: Target) -> Iterator[Finding]:
    can = target.tokenizer.modes if target.tokenizer else ()
    missing = [mode for mode in can if drafter.modes is not None and mode not in drafter.modes]
    if missing:
        yield Finding(
            "modes",
            "warn",
            f"it was trained on {' and '.join(drafter.modes or ())} answers, the target also gives {missing[0]} ones",
            f"Turn it off for {missing[0]} traffic, or train it there: acceptance was seen to fall from 9.5 to 3.",
            f"{_ZLAB}/issues/60",
        )
    if drafter.languages is not None and len(drafter.languages) == 1:
        what = f"it was trained on one language, {drafter.languages[0]}"
        yield Finding("languages", "warn", what, "Measure τ in yours: 6.4 became 3.3.", f"{_ZLAB}/issues/7")


def _quantised(drafter: DrafterFacts, target: Target) -> Iterator[Finding]:
    if drafter.quantisation is not None:
        what = f"its weights are quantised ({drafter.quantisation}); one such drafter fell from τ 3.7 to 1.0 unseen"
        yield Finding("quantisation", "warn", what, "Prefer its bf16 weights.", f"{_SGLANG}/issues/39087")


def _tensors(drafter: DrafterFacts, target: Target) -> Iterator[Finding]:
    tensors, source = drafter.tensors, f"{_SGLANG}/blob/v0.5.23/python/sglang/srt/models/dflash.py"
    if not tensors or drafter.architecture not in _USUAL:
        return
    names = {name.removeprefix("model.") for name in tensors}
    needed = ["fc.weight", "hidden_norm.weight", "norm.weight"]
    needed += [f"layers.{index}.{part}" for index in range(drafter.layers or 0) for part in _LAYER]
    aliases = {"fc.weight": "encoder.fc.weight", "hidden_norm.weight": "encoder.output_norm_enc.weight"}
    lacking = [name for name in needed if name not in names and aliases.get(name) not in names]
    if lacking:
        more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        what = f"its weights lack {lacking[0]}{more}; engines do not say so and draft noise"
        yield Finding("tensors", "refuse", what, "Export it again.", source)
    fc = tensors.get("fc.weight") or tensors.get("model.fc.weight")
    width = drafter.target_hidden_size or drafter.hidden_size
    taps = len(drafter.taps or ())
    if fc is not None and len(fc.shape) == 2 and width and taps and fc.shape[1] != taps * width:
        what = f"fc.weight reads {fc.shape[1]:,} numbers, {taps} layers of {width:,} give {taps * width:,}"
        yield Finding("layer_ids", "refuse", what, "Correct target_layer_ids in its config.json.", source)


_USUAL = ("DFlashDraftModel", "DFlash2DraftModel", "DFlash2BeamDraftModel", "LiLiCorrDraftModel", "DFlashSpeculator")
"""Architectures with just these tensors, and more of their own; others (Laguna's) normalise elsewhere."""
_LAYER = (
    *("input_layernorm.weight", "post_attention_layernorm.weight"),
    *(f"self_attn.{name}.weight" for name in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")),
    *(f"mlp.{name}.weight" for name in ("gate_proj", "up_proj", "down_proj")),
)
"""Tensors of one layer of a DFlash drafter, whatever the target's family."""
_CHECKS: tuple[Callable[[DrafterFacts, Target], Iterator[Finding]], ...] = (
    _hidden_size,
    _depth,
    _layer_ids,
    _mask,
    _vocabulary,
    _rope,
    _window,
    _modes,
    _quantised,
    _tensors,
)
