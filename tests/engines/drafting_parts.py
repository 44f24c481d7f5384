"""What tests of drafting engines share: questions, the reference's τ on answers, and answers scored by the target."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from benchmarks.drafter.agreement import Agreement
from benchmarks.drafter.answers import Answer, Client

from outrider.app.server import Launch
from outrider.models.sources import SHIPPED_DRAFTERS
from tests.models.real import smollm

if TYPE_CHECKING:
    from outrider.drafting.acceptance import Measurement

SHIPPED = SHIPPED_DRAFTERS / "smollm2-135m-instruct-dflash"
QUESTIONS = (
    "What is the capital of France?",
    "Write a short story about a dog who finds a bone.",
    'Write {"name": "Ada", "born": 1815, "city": "London"} again, as JSON.',
    "Count from one to twenty, in words.",
    "Write a Python function that adds the even numbers of a list.",
    "How do I make pancakes? Give me the steps.",
    "Explain photosynthesis to a child.",
    "Write a JSON array of three books, each with title, author and year.",
    "Write a polite e-mail that moves a meeting to Friday.",
    "What are the advantages of riding a bicycle to work?",
    "Write an HTML page with a heading and a list of four fruits.",
    "Tell me about the history of the printing press.",
)
LIMIT = 96
"""Tokens of an answer."""
Answered = tuple[tuple[int, ...], Answer]
"""A prompt's tokens, and what the engine said."""


@cache
def target(precision: str = "float32") -> Any:
    """The model, dequantised."""
    import torch

    from outrider.drafting.target import Target

    return Target.load(smollm(), dtype=getattr(torch, precision))


def prompts(questions: Sequence[str] = QUESTIONS) -> list[tuple[int, ...]]:
    """Questions in the model's own chat form."""
    tokenizer = target().tokenizer
    turns = [[{"role": "user", "content": question}] for question in questions]
    texts = [tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False) for turn in turns]
    return [tuple(tokenizer.encode(text, add_special_tokens=False)) for text in texts]


def ask(engine: str, launch: Launch, questions: Sequence[str] = QUESTIONS) -> list[Answered]:
    """Greedy answers to questions in the model's own chat form."""
    asked = prompts(questions)
    return list(zip(asked, Client(engine, launch, LIMIT).one_by_one(asked, lambda: None), strict=True))


def measured(answered: Sequence[Answered], *, precision: str) -> Measurement:
    """What the reference accepts of the shipped drafter's drafts on the same answers."""
    from outrider.drafting import checkpoint
    from outrider.drafting.evaluation import Record, measure

    drafter = checkpoint.load(SHIPPED)
    target(precision).tap(drafter.config.target_layer_ids)
    return measure(drafter, target(precision), [Record(prompt, said.tokens) for prompt, said in answered])


def compared(answered: Sequence[Answered], reference: Measurement) -> Agreement:
    """τ as the engine's steps have it, and the reference's, paired by prompt."""
    from benchmarks.drafter.comparison import agreement

    return agreement([said for _, said in answered], reference)


def regrets(prompt: Sequence[int], answer: Sequence[int]) -> list[float]:
    """How far each token of an answer lies below the best one, in logits, by the target that computes alone in fp32.

    A lossless engine says the best token, or one that its own rounding cannot tell from it. Comparing texts would not
    do: a verification pass is of another shape than a plain one, rounds otherwise, and flips near ties.
    """
    from benchmarks.drafter import comparison

    return comparison.regrets(target(), prompt, answer)


def one_wrong(answer: Sequence[int]) -> list[int]:
    """The answer with another token in its middle."""
    middle = len(answer) // 2
    return [*answer[:middle], 4242, *answer[middle + 1 :]]
