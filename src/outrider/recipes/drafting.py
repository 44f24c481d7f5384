"""What drafting costs: the drafter's size and its passes a step."""

from __future__ import annotations

from dataclasses import dataclass

from outrider.recipes.schema import Speculation
from outrider.spec.facts import ModelFacts

_LAYERS = {"dflash": 5, "eagle3": 1, "mtp": 1}
"""Layers of a drafter, by method; each as wide as the target's. Qwen3-8B's DFlash drafter has 5, its 1.05 G parameters
are what this gives with ``fc``; EAGLE-3 and MTP heads have one."""
_TAPS = {"dflash": 5, "eagle3": 3}
"""Layers of the target whose hidden states a drafter reads, through one matrix."""
_ONE_PASS = ("dflash",)
"""Methods that draft all tokens in one pass; the others need a pass a token."""
DEFAULT_TOKENS = {"dflash": 7, "eagle3": 3, "mtp": 3, "ngram": 4, "draft": 3}
"""Tokens drafted where a recipe does not say."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A drafter at work.

    Attributes:
        parameters: its own, without embedding and head, which are the target's; None: not known.
        read: those that a token uses.
        layers: its blocks.
        passes: of it in one verification step.
        tokens: drafted a step.
    """

    parameters: int | None
    read: int
    layers: int
    passes: int
    tokens: int


NONE = Draft(parameters=0, read=0, layers=0, passes=0, tokens=0)
"""Nothing drafts."""


def draft(speculation: Speculation, facts: ModelFacts) -> Draft:
    """What a recipe's speculation does. Its size is estimated from the target's width."""
    method = speculation.method
    if method == "off":
        return NONE
    tokens = speculation.tokens or DEFAULT_TOKENS[method]
    if method == "ngram":
        return Draft(parameters=0, read=0, layers=0, passes=0, tokens=tokens)
    if method not in _LAYERS:
        return Draft(parameters=None, read=0, layers=0, passes=tokens, tokens=tokens)
    layers, passes = _LAYERS[method], 1 if method in _ONE_PASS else tokens
    if method == "mtp":
        whole, used = _share(facts.parameters, facts.layers), _share(facts.active_parameters, facts.layers)
        return Draft(whole, used or whole or 0, layers, passes, tokens)
    size = _dense(facts, layers, taps=_TAPS[method])
    return Draft(size, size or 0, layers, passes, tokens)


def _share(parameters: int | None, layers: int | None) -> int | None:
    """One layer's part: an MTP head is a block like the target's, with experts where those have some."""
    return None if parameters is None or not layers else parameters // layers


def _dense(facts: ModelFacts, layers: int, *, taps: int) -> int | None:
    """Parameters of dense blocks as wide as the target: attention, a gated network, and the matrix for ``taps``."""
    hidden = facts.hidden_size
    if hidden is None:
        return None
    attention = 4 * hidden**2
    if facts.heads and facts.kv_heads and facts.head_dim:
        attention = hidden * facts.head_dim * 2 * (facts.heads + facts.kv_heads)
    return layers * (attention + 3 * hidden * (facts.ffn_size or 3 * hidden)) + taps * hidden**2
