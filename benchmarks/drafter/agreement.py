"""τ of an engine beside the reference's on the same answers, prompt by prompt, and how far they may differ."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bound:
    """How far an engine's τ may lie from the reference's: the larger of the two.

    Attributes:
        share: of the reference's τ.
        errors: standard errors of the mean difference.
    """

    share: float
    errors: float = 0.0


_OWN_NUMERICS = Bound(share=0.03, errors=2.0)
BOUNDS = {"vllm": _OWN_NUMERICS, "sglang": _OWN_NUMERICS, "llamacpp": Bound(share=0.10)}
"""vLLM and SGLang compute as the reference does, in bf16; llama.cpp's target is quantised, the reference's is not."""


@dataclass(frozen=True)
class Agreement:
    """τ of both on the same answers: means over prompts.

    Attributes:
        prompts: those that have a whole step in both.
        engine, reference: means over them; NaN where there are none.
        error: standard error of the mean difference; NaN for fewer than two prompts.
    """

    prompts: int
    engine: float
    reference: float
    error: float

    @property
    def difference(self) -> float:
        """The engine's τ less the reference's."""
        return self.engine - self.reference

    def agrees(self, bound: Bound) -> bool:
        """Whether the difference lies within the bound; never, where there is none."""
        errors = 0.0 if math.isnan(self.error) else bound.errors * self.error
        return abs(self.difference) <= max(bound.share * self.reference, errors)


def paired(pairs: Sequence[tuple[float, float]]) -> Agreement:
    """From each prompt's two τ, the engine's first; prompts where one has no whole step (NaN) are left out."""
    whole = [pair for pair in pairs if not any(map(math.isnan, pair))]
    if not whole:
        return Agreement(0, math.nan, math.nan, math.nan)
    differences = [engine - reference for engine, reference in whole]
    error = statistics.stdev(differences) / math.sqrt(len(whole)) if len(whole) > 1 else math.nan
    engine, reference = (statistics.fmean(side) for side in zip(*whole, strict=True))
    return Agreement(len(whole), engine, reference, error)


def median(values: Sequence[float]) -> float:
    """Of those that are numbers; NaN: there is none."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan


def rounded(value: float, digits: int = 4) -> float | None:
    """For JSON, which has no NaN and no infinity."""
    return round(value, digits) if math.isfinite(value) else None
