"""What the answers of an engine with a drafter and without it say: times, acceptance by the reference, losslessness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from benchmarks.drafter.agreement import Agreement, Bound, median, paired, rounded
from benchmarks.drafter.answers import Answer

from outrider.drafting.acceptance import Measurement
from outrider.drafting.target import Target


def agreement(answers: Sequence[Answer], measured: Measurement) -> Agreement:
    """Pair the engine's τ of each answer with the reference's."""
    return paired(
        [
            (answer.tau(measured.block_size), 1 + float(record.stood.double().sum(1).mean()))
            for answer, record in zip(answers, measured.records, strict=True)
        ]
    )


def emit(found: Agreement, bound: Bound) -> dict[str, Any]:
    """For JSON."""
    return {
        "paired_prompts": found.prompts,
        "tau_engine": rounded(found.engine),
        "tau_reference": rounded(found.reference),
        "tau_difference": rounded(found.difference),
        "tau_difference_standard_error": rounded(found.error),
        "tau_agrees": found.agrees(bound),
    }


def milliseconds(answers: Sequence[Answer]) -> float:
    """Median over the prompts of the time a token after the first; NaN where no answer has a second token."""
    return median([answer.ms for answer in answers])


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Index of the first token that differs, or of the one that only the longer has; None: they are equal."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return None if len(one) == len(other) else min(len(one), len(other))


def regrets(target: Target, prompt: Sequence[int], answer: Sequence[int]) -> list[float]:
    """How far each token of an answer lies below the best one, in logits, by the target alone."""
    if not answer:
        return []
    ids = torch.tensor([[*prompt, *answer]], device=target.device)
    rows = target.forward(ids).logits[0, len(prompt) - 1 : -1].float()
    said = rows.gather(1, ids[0, len(prompt) :, None])[:, 0]
    return [float(value) for value in (rows.max(dim=1).values - said).cpu()]


def losslessness(
    target: Target, prompts: Sequence[Sequence[int]], plain: Sequence[Answer], drafted: Sequence[Answer]
) -> dict[str, Any]:
    """How many greedy answers are equal, and whether those that part do so at a tie, by the target in fp32.

    A pass over a block rounds otherwise than one over a token, so near ties may fall otherwise; from there on the two
    answers are of different texts. A lossless engine's tokens have no more regret with the drafter than without.
    """
    apart, worst_plain, worst_drafted = [], 0.0, 0.0
    for prompt, without, with_it in zip(prompts, plain, drafted, strict=True):
        said = regrets(target, prompt, with_it.tokens)
        worst_drafted = max([worst_drafted, *said])
        worst_plain = max([worst_plain, *regrets(target, prompt, without.tokens)])
        index = first_difference(without.tokens, with_it.tokens)
        if index is not None:
            apart.append(said[index] if index < len(said) else math.inf)
    return {
        "answers_equal": rounded(1 - len(apart) / len(prompts)) if prompts else None,
        "regret_where_they_part_median": rounded(median(apart)),
        "regret_where_they_part_largest": rounded(max(apart, default=math.nan)),
        "largest_regret_with": rounded(worst_drafted),
        "largest_regret_without": rounded(worst_plain),
    }
