"""The policies that a trace is replayed through: the gateway's own functions, and what they are to be compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from outrider.errors import UsageError
from outrider.gateway.affinity import Policy, affine, by_key, by_prefix
from outrider.gateway.balancer import Loads, least_outstanding, two_choices
from outrider.gateway.demand import Demand
from outrider.gateway.table import Replica


def at_random(demand: Demand, among: Sequence[Replica], loads: Loads, slack: int, rng: Random) -> Replica | None:
    """Any replica."""
    return among[int(rng.random() * len(among))] if among else None


class RoundRobin:
    """One replica after the other, in the order of their ids."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(
        self, demand: Demand, among: Sequence[Replica], loads: Loads, slack: int, rng: Random
    ) -> Replica | None:
        """The first whose id is after the last one's."""
        if not among:
            return None
        chosen = min(among, key=lambda replica: (replica.id <= self._last, replica.id))
        self._last = chosen.id
        return chosen


def least_requests(demand: Demand, among: Sequence[Replica], loads: Loads, slack: int, rng: Random) -> Replica | None:
    """The replica with the fewest requests in flight."""
    return min(among, key=lambda one: (loads.requests.get(one.id, 0), rng.random())) if among else None


def least_tokens(demand: Demand, among: Sequence[Replica], loads: Loads, slack: int, rng: Random) -> Replica | None:
    """The replica with the fewest outstanding tokens."""
    return least_outstanding(among, loads, rng)


def two_drawn(demand: Demand, among: Sequence[Replica], loads: Loads, slack: int, rng: Random) -> Replica | None:
    """The one with fewer outstanding tokens of two drawn at random."""
    return two_choices(among, loads, rng)


POLICIES: dict[str, Callable[[], Policy]] = {
    "random": lambda: at_random,
    "round-robin": RoundRobin,
    "least-requests": lambda: least_requests,
    "two-choices": lambda: two_drawn,
    "least-tokens": lambda: least_tokens,
    "key": lambda: by_key,
    "prefix": lambda: by_prefix,
    "gateway": lambda: affine,
}
"""Name → a fresh policy. ``gateway`` is the one in use: ``key`` where a request names one, else ``prefix``."""


def policy(name: str) -> Policy:
    """A fresh policy of that name. Raises UsageError for an unknown one."""
    if name not in POLICIES:
        raise UsageError(f"There is no policy {name!r}", remedy=f"Choose among: {', '.join(POLICIES)}.")
    return POLICIES[name]()
