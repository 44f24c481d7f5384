"""What tests of drafting engines share: the drafter, prompts, and answers scored again by the target itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from outrider.engines.probes import EngineAddress
from outrider.models.sources import SHIPPED_DRAFTERS
from tests.drafting import random_drafter
from tests.models.real import smollm

SHIPPED = SHIPPED_DRAFTERS / "smollm2-135m-instruct-dflash"
QUESTIONS = (
    "What is the capital of France?",
    "Write a short story about a dog who finds a bone.",
    'Write {"name": "Ada", "born": 1815, "city": "London"} again, as JSON.',
    "Count from one to twenty, in words.",
)
LIMIT = 48
"""Tokens of an answer."""


@dataclass(frozen=True)
class Answered:
    """A prompt and what the engine said, as token ids."""

    prompt: tuple[int, ...]
    answer: tuple[int, ...]


def drafter(tmp_path: Path) -> Path:
    """The drafter that ships with Outrider; where there is none, one with random weights."""
    return SHIPPED if SHIPPED.exists() else random_drafter.write(tmp_path / "drafter")


@cache
def target() -> Any:
    """The model, dequantised, in fp32."""
    import torch

    from outrider.drafting.target import Target

    return Target.load(smollm(), dtype=torch.float32)


def prompts() -> list[tuple[int, ...]]:
    """The questions in the model's own chat form."""
    tokenizer = target().tokenizer
    turns = [[{"role": "user", "content": question}] for question in QUESTIONS]
    texts = [tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False) for turn in turns]
    return [tuple(tokenizer.encode(text, add_special_tokens=False)) for text in texts]


def ask(address: EngineAddress, prompt: Sequence[int]) -> Answered:
    """One greedy answer as token ids: vLLM gives them with a completion, llama.cpp at its own endpoint."""
    body = {"prompt": list(prompt), "temperature": 0, "model": "hello"}
    if address.json("/v1/models", timeout=10)["data"][0].get("owned_by") == "llamacpp":
        own = body | {"n_predict": LIMIT, "return_tokens": True}
        ids = address.json("/completion", own, timeout=120)["tokens"]
    else:
        more = body | {"max_tokens": LIMIT, "return_token_ids": True}
        ids = address.json("/v1/completions", more, timeout=120)["choices"][0]["token_ids"]
    return Answered(tuple(prompt), tuple(int(token) for token in ids))


def regrets(found: Answered) -> list[float]:
    """How far each token of an answer lies below the best one, in logits, by the target that computes alone in fp32.

    A lossless engine says the best token, or one that its own rounding cannot tell from it. Comparing texts would not
    do: a verification pass is of another shape than a plain one, rounds otherwise, and flips near ties.
    """
    import torch

    logits = target().forward(torch.tensor([found.prompt + found.answer])).logits[0].float()
    rows = logits[len(found.prompt) - 1 : len(found.prompt) + len(found.answer) - 1]
    said = rows.gather(1, torch.tensor(found.answer)[:, None])[:, 0]
    return [float(value) for value in rows.max(dim=1).values - said]
