"""What traffic looks like: named shapes of requests, scaled to what a model's context holds."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

_ROOM = 0.95
"""Share of the context that a scaled request fills at most: prompts are written in words, and hit a number of tokens
within a few percent."""


class Shape(NamedTuple):
    """Lengths of one request, in tokens.

    Attributes:
        input_tokens: the whole prompt, its shared beginning included.
        output_tokens: the answer.
        shared_prefix_tokens: leading part of the prompt that other requests with the same ``prefix_id`` begin with.
        prefix_id: which beginning; None shares none.
        affinity_key: sent as ``Outrider-Affinity-Key``; None: not sent.
    """

    input_tokens: int
    output_tokens: int
    shared_prefix_tokens: int = 0
    prefix_id: str | None = None
    affinity_key: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of traffic.

    Attributes:
        name: what users call it.
        shared: leading tokens that every request has in common.
        input: further prompt tokens, unlike in every request.
        output: answer tokens.
        spread: how far ``input`` and ``output`` vary: standard deviation of their logarithm around the median given
            above (0: every request is alike). Real conversations are close to log-normal.
        scale: what the lengths were multiplied by to fit a context; 1 as published.
    """

    name: str
    shared: int
    input: int
    output: int
    spread: float = 0.0
    scale: float = 1.0

    @property
    def typical(self) -> Shape:
        """The median request."""
        return self._shape(1.0, 1.0)

    @property
    def longest(self) -> int:
        """Tokens of the longest request: draws beyond twice the spread are cut to it."""
        stretch = math.exp(2 * self.spread)
        return self.shared + round(self.input * stretch) + round(self.output * stretch)

    def shapes(self, rng: random.Random) -> Iterator[Shape]:
        """Endless requests. The answer's length varies independently of the prompt's."""
        while True:
            yield self._shape(self._stretch(rng), self._stretch(rng))

    def fitted(self, context: int | None) -> Profile:
        """Scaled down so that the longest request fits ``context`` tokens; itself where it does, or None is known."""
        if context is None or self.longest <= context * _ROOM:
            return self
        scale = context * _ROOM / self.longest
        shared, unlike, answer = (int(length * scale) for length in (self.shared, self.input, self.output))
        return replace(self, shared=shared, input=max(1, unlike), output=max(1, answer), scale=self.scale * scale)

    def _stretch(self, rng: random.Random) -> float:
        return math.exp(self.spread * max(-2.0, min(2.0, rng.gauss(0.0, 1.0)))) if self.spread else 1.0

    def _shape(self, prompt: float, answer: float) -> Shape:
        return Shape(
            input_tokens=self.shared + max(1, round(self.input * prompt)),
            output_tokens=max(1, round(self.output * answer)),
            shared_prefix_tokens=self.shared,
            prefix_id=self.name if self.shared else None,
        )


PROFILES: dict[str, Profile] = {
    "chat": Profile("chat", shared=200, input=400, output=200, spread=0.5),
    "realtime": Profile("realtime", shared=0, input=3000, output=100),
    "agentic": Profile("agentic", shared=45_000, input=5000, output=200),
}
"""``chat``: a short system prompt, a conversation of varying length. ``realtime``: 3,000 in → 100 out, a voice or
search answer that must begin at once. ``agentic``: 45,000 tokens of tools and history that every step repeats, 5,000
new ones, 200 out. The last two are the workloads that hosted endpoints are advertised with."""
