"""Sources: the applications and conversations that requests of a profile come from, and traces made up of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from outrider.errors import UsageError
from outrider.loadgen.arrivals import poisson
from outrider.loadgen.profiles import PROFILES, Profile, Shape
from outrider.loadgen.traces import Arrival

_TURNS = 10
"""Of a conversation, on average."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Who sends the requests of a profile.

    Attributes:
        profile: the lengths of their requests.
        count: how many there are at a time. Where the profile shares a beginning, each has its own.
        converse: whether a source's beginning grows with each of its requests, as a conversation's does.
        keyed: whether they name an affinity key.
    """

    profile: Profile
    count: int
    converse: bool = False
    keyed: bool = False


SOURCES = {
    "realtime": Sources(PROFILES["realtime"], count=1),
    "agentic": Sources(PROFILES["agentic"], count=16, keyed=True),
    "chat": Sources(PROFILES["chat"], count=100, converse=True),
}
"""``realtime``: requests that have nothing in common. ``agentic``: sixteen agents that name their key. ``chat``: a
hundred conversations that send all that was said before with every turn, and end after some ten of them."""


def sources(name: str) -> Sources:
    """The sources of the profile of that name. Raises UsageError for an unknown one."""
    if name not in SOURCES:
        raise UsageError(f"There is no profile {name!r}", remedy=f"Choose among: {', '.join(SOURCES)}.")
    return SOURCES[name]


def generate(kind: Sources, *, seconds: float, rate: float, seed: int) -> Iterator[Arrival]:
    """The requests of a trace: Poisson arrivals, from sources of unequal weight (Zipf: the n-th sends 1/n as many).

    Args:
        kind: who sends them.
        seconds: how long.
        rate: requests a second, on average.
        seed: the same seed gives the same trace.
    """
    rng = Random(seed)
    senders = [_Source(str(number), kind) for number in range(kind.count)]
    weights = [1 / (1 + number) for number in range(kind.count)]
    shapes = kind.profile.shapes(rng)
    for at in poisson(rate, rng):
        if at >= seconds:
            return
        [sender] = rng.choices(senders, weights)
        yield Arrival(round(at, 4), sender.request(next(shapes), rng))


class _Source:
    """One source, with what has been said."""

    def __init__(self, name: str, kind: Sources) -> None:
        self._name = name
        self._kind = kind
        self._life = 0
        self._said = kind.profile.shared

    def request(self, shape: Shape, rng: Random) -> Shape:
        """What it asks, of a request's lengths."""
        if self._kind.converse:
            return self._turn(shape, rng)
        return shape._replace(
            prefix_id=self._name if shape.shared_prefix_tokens else None,
            affinity_key=self._name if self._kind.keyed else None,
        )

    def _turn(self, shape: Shape, rng: Random) -> Shape:
        """The whole prompt is what the next turn begins with, and the answer is part of that turn."""
        name = f"{self._name}.{self._life}"
        whole = self._said + shape.input_tokens - shape.shared_prefix_tokens
        self._said = whole + shape.output_tokens
        if rng.random() < 1 / _TURNS:
            self._said, self._life = self._kind.profile.shared, self._life + 1
        key = name if self._kind.keyed else None
        return Shape(whole, shape.output_tokens, shared_prefix_tokens=whole, prefix_id=name, affinity_key=key)
