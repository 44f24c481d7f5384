"""Records to measure a drafter on, out of data that it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import torch

from .chat_format import ChatFormat
from .dataset import Row
from .evaluation import Record
from .target import Target


def records(rows: Sequence[Row], *, per_slice: int, seed: int = 0) -> list[Record]:
    """The last answer of up to ``per_slice`` rows of each slice, drawn by the seed; those too short to draft are left
    out."""
    found: list[Record] = []
    for name in sorted({row.slice for row in rows}):
        group = [row for row in rows if row.slice == name and row.answers[-1][1] - row.answers[-1][0] > 16]
        Random(seed).shuffle(group)
        found += [Record(row.prompt, tuple(row.tokens[slice(*row.answers[-1])]), name) for row in group[:per_slice]]
    return found


@torch.no_grad()
def after_context(
    target: Target,
    form: ChatFormat,
    rows: Sequence[Row],
    *,
    lengths: Sequence[int],
    number: int,
    limit: int,
    seed: int = 0,
) -> list[Record]:
    """The same last questions after contexts of different length, answered greedily by the target each time.

    Conversations of ``rows`` come before the last user's turn, cut on the left so that the whole prompt has exactly
    as many tokens as wanted. Slices are ``context-LENGTH``, records of all lengths in the same order.
    """
    chats = [row for row in rows if len(row.answers) == 1]
    random = Random(seed)
    opening = form.opening()
    talks = [row.tokens[len(opening) :] for row in chats if tuple(row.tokens[: len(opening)]) == opening]
    found: list[Record] = []
    asked = [_history(talks, form, max(lengths), random) for _ in range(number)]
    for length in lengths:
        prompts = [(*opening, *text[len(text) - (length - len(opening)) :]) for text in asked]
        found += _answered(target, prompts, f"context-{length}", limit)
    return found


def _history(talks: Sequence[list[int]], form: ChatFormat, length: int, random: Random) -> list[int]:
    """Conversations one after another, ending where an answer is due, at least ``length`` tokens."""
    last = random.choice(talks)
    end = next(at for at in range(len(last)) if tuple(last[at : at + len(form.bridge)]) == form.bridge)
    text = last[: end + len(form.bridge)]
    while len(text) < length:
        text = [*random.choice(talks), *form.again, *text]
    return text


def _answered(
    target: Target, prompts: Sequence[tuple[int, ...]], name: str, limit: int, batch: int = 32
) -> list[Record]:
    """Greedy answers to prompts of equal length, so that no padding is needed."""
    model: Any = target.model
    found = []
    for start in range(0, len(prompts), batch):
        part = torch.tensor(prompts[start : start + batch], device=target.device)
        out = model.generate(part, attention_mask=torch.ones_like(part), max_new_tokens=limit, do_sample=False)
        stops = model.generation_config.eos_token_id
        ends = {stops} if isinstance(stops, int) else set(stops or ())
        for prompt, row in zip(prompts[start:], out[:, part.shape[1] :].tolist(), strict=False):
            stop = next((at + 1 for at, token in enumerate(row) if token in ends), len(row))
            found.append(Record(prompt, tuple(row[:stop]), name))
    return found
