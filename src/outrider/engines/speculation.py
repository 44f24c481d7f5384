"""``Speculation``: which drafter speculates for the engine's model, the same words for every engine."""

from __future__ import annotations

from collections.abc import Mapping

from outrider.app.server import Weights
from outrider.errors import InvalidInput

METHODS = ("off", "dflash", "eagle3", "mtp", "ngram", "draft")
"""off; a DFlash, EAGLE-3 or plain draft model; multi-token prediction heads of the target itself; n-gram lookup."""
WITH_DRAFTER = ("dflash", "eagle3", "draft")
"""Methods that need a drafter's weights."""
USUAL_TOKENS: Mapping[str, int] = {"off": 0, "dflash": 7, "eagle3": 3, "mtp": 1, "ngram": 4, "draft": 3}
"""Tokens drafted a step where nothing is said: few, because each costs verification once many requests are decoded."""
UNQUANTISED = "none"
"""How a drafter is said to be stored in bf16 or fp16."""
LONGEST, SHORTEST = 4, 2
"""n-gram: the last 4 tokens are looked up in the text so far, then shorter ends down to 2 (both engines' own sizes for
it differ by version; 2 to 4 was measured here)."""


class Speculation:
    """Whether and how a drafter speculates.

    Args:
        method: one of :data:`METHODS`.
        tokens: tokens drafted a step, without the bonus token; a DFlash block of 8 drafts 7. None:
            :data:`USUAL_TOKENS`.
        drafter: the drafter's weights, for the methods that have some.
        quantization: of the drafter's weights, in the engine's words (``"fp8"``, …), or ``"none"``. It must be said
            where there is a drafter: left out, SGLang would read it as if quantised like the target.

    Raises:
        InvalidInput: an unknown method, or a part that is missing or has no place.
    """

    def __init__(
        self,
        method: str,
        *,
        tokens: int | None = None,
        drafter: Weights | None = None,
        quantization: str | None = None,
    ) -> None:
        wrong = _wrong(method, tokens, drafter, quantization)
        if wrong:
            raise InvalidInput(f"Speculation({method!r}): {wrong}", remedy="Correct it in serve.py.")
        self.method = method
        self.tokens = USUAL_TOKENS[method] if tokens is None else tokens
        self.drafter = drafter
        self.quantization = quantization

    @property
    def quantised(self) -> str | None:
        """The drafter's quantisation; None where it has none."""
        return None if self.quantization == UNQUANTISED else self.quantization

    def describe(self) -> dict[str, object]:
        """JSON-serialisable form."""
        describe = getattr(self.drafter, "describe", None)
        return {
            "method": self.method,
            "tokens": self.tokens,
            "drafter": describe() if describe else None,
            "quantization": self.quantization,
        }


def _wrong(method: str, tokens: int | None, drafter: Weights | None, quantization: str | None) -> str | None:
    if method not in METHODS:
        return f"no method of that name; there are {', '.join(METHODS)}"
    if method == "off":
        return "it takes nothing else" if (tokens, drafter, quantization) != (None, None, None) else None
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        return f"tokens is a whole number, 1 or more, not {tokens!r}"
    if method in WITH_DRAFTER and (drafter is None or not quantization):
        return 'it needs drafter=Weights(…) and quantization= ("none" where the drafter\'s weights are not quantised)'
    if method not in WITH_DRAFTER and (drafter is not None or quantization is not None):
        return "it has no drafter of its own, so neither drafter nor quantization"
    return None


OFF = Speculation("off")
"""No speculation."""


def checked_speculation(engine: str, speculation: Speculation | None) -> Speculation:
    """What an engine was given, or :data:`OFF`. Raises InvalidInput for something else, such as a method's name."""
    if speculation is not None and not isinstance(speculation, Speculation):
        raise InvalidInput(
            f"{engine}(speculation={speculation!r})",
            why="it is a Speculation",
            remedy=f"Write speculation=outrider.Speculation({speculation!r}, …).",
        )
    return OFF if speculation is None else speculation
