"""The arithmetic of the benchmark: steps that count, an engine's τ beside the reference's, and the ratios of rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What an engine said to one prompt.

    Attributes:
        tokens: of the answer.
        steps: tokens that each verification step committed, in order; the first token is the prompt's own pass's.
        seconds: from the first token to the last.
    """

    tokens: tuple[int, ...]
    steps: tuple[int, ...]
    seconds: float

    @property
    def ms(self) -> float:
        """Time a token after the first, milliseconds."""
        return 1000 * self.seconds / max(1, len(self.tokens) - 1)

    def tau(self, block: int) -> float:
        """Tokens a step, over the steps whose whole block lies inside the answer; NaN where there are none.

        These are the steps that the reference counts, too (:func:`outrider.drafting.evaluation.measure`): to leave out
        only the last would keep the short steps before it, which have stayed inside *because* they were short.
        """
        counted, anchor = [], 0
        for step in self.steps:
            if anchor + block < len(self.tokens):
                counted.append(step)
            anchor += step
        return statistics.fmean(counted) if counted else math.nan


def by_step(said: Sequence[tuple[float, float, Sequence[int]]]) -> list[tuple[float, list[int]]]:
    """Tokens that came one by one, put together by the engine's own clock, which stands still within a step.

    Args:
        said: when each came, the time of decoding that it carries, and its ids.

    Returns:
        When the last token of each step came, and the step's ids.
    """
    steps = [list(step) for _, step in groupby(said, key=lambda one: one[1])]
    return [(step[-1][0], [token for _, _, ids in step for token in ids]) for step in steps]


def answered(chunks: Sequence[tuple[float, Sequence[int]]]) -> Answer:
    """From when the prompt's own pass and each step after it came, in seconds, and their tokens."""
    tokens = tuple(token for _, chunk in chunks for token in chunk)
    seconds = chunks[-1][0] - chunks[0][0] if chunks else 0.0
    return Answer(tokens, tuple(len(chunk) for _, chunk in chunks[1:]), seconds)


@dataclass(frozen=True)
class Bound:
    """How far an engine's τ may lie from the reference's: the larger of the two.

    Attributes:
        share: of the reference's τ.
        errors: standard errors of the mean difference.
    """

    share: float
    errors: float = 0.0


BOUNDS = {"vllm": Bound(share=0.03, errors=2.0), "llamacpp": Bound(share=0.10)}
"""vLLM computes as the reference does, in bf16; llama.cpp's target is quantised, and the reference's is not."""


@dataclass(frozen=True)
class Compared:
    """τ of an engine and of the reference on the same answers: means over prompts.

    Attributes:
        prompts: pairs.
        error: standard error of the difference; None for a single pair.
    """

    prompts: int
    engine: float
    reference: float
    error: float | None

    @property
    def difference(self) -> float:
        """The engine's τ less the reference's."""
        return self.engine - self.reference

    def agrees(self, bound: Bound) -> bool:
        """Whether the difference lies within the bound."""
        return abs(self.difference) <= max(bound.share * self.reference, bound.errors * (self.error or 0.0))


def compare(pairs: Sequence[tuple[float, float]]) -> Compared:
    """From each prompt's two τ, the engine's first; prompts where one has no whole step are left out.

    Raises:
        ValueError: nothing is left.
    """
    whole = [pair for pair in pairs if not any(map(math.isnan, pair))]
    if not whole:
        raise ValueError("no prompt has a whole verification step")
    differences = [engine - reference for engine, reference in whole]
    error = statistics.stdev(differences) / math.sqrt(len(whole)) if len(whole) > 1 else None
    engine, reference = (statistics.fmean(side) for side in zip(*whole, strict=True))
    return Compared(len(whole), engine, reference, error)


_PLACES = {"vllm": "vllm_cpu", "llamacpp": "llamacpp"}
"""How ratios of time name an engine."""


def ratios(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Named by what is divided by what, from the rows of the DFlash; a DFlash 2 has rows, and no names."""
    found: dict[str, float] = {}
    for row in rows:
        if row["drafter"] == "dflash":
            name, engine = row["slice"], row["engine"]
            found[f"tau_{engine}_over_reference_{name}"] = row["tau_engine"] / row["tau_reference"]
            found[f"decode_ms_{name}_{_PLACES[engine]}_over_none"] = row["decode_ms_over_none"]
    return {name: round(value, 4) for name, value in found.items()}
