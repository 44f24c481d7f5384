"""Which replica gets a request, where nothing but load decides. Pure: loads and randomness are arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import NamedTuple

from outrider.gateway.prefixes import PrefixIndex
from outrider.gateway.table import Endpoint, Replica

SCAN_UP_TO = 16
"""Up to here every replica is looked at; beyond, two drawn at random are nearly as good, however many there are."""


class Loads(NamedTuple):
    """What is known of the replicas when one is chosen. Replicas that are absent have nothing to do.

    Attributes:
        requests: in flight, by replica id.
        tokens: outstanding, by replica id: prompts not yet read and answers not yet written, as estimated.
        prefixes: which replica was lately sent what.
    """

    requests: Mapping[str, int]
    tokens: Mapping[str, int]
    prefixes: PrefixIndex


def candidates(endpoint: Endpoint, loads: Loads, share: float, *, tried: Collection[str] = ()) -> Sequence[Replica]:
    """The replicas that the next request of an endpoint may go to: with room, and all of one revision.

    The revision is drawn by weight; where it has no free replica, a request goes to another with weight rather than
    waiting, and to one without weight only where no other revision has replicas at all.

    Args:
        endpoint: with its ready replicas.
        loads: of the replicas.
        share: what draws the revision, in [0, 1): random, or fixed for requests that belong together. Revisions take
            up that interval in the order of their numbers, so that a shift of weight moves only as many as it must.
        tried: ids of replicas that this request has failed on.
    """
    groups = endpoint.groups
    if len(groups) == 1:
        return _open(groups[0][1], loads, tried)
    left = [group for group in groups if group[0] > 0 and not all(replica.id in tried for replica in group[1])]
    if not left:
        left = [(1.0, replicas) for _, replicas in groups]
    while left:
        index, share = _draw([weight for weight, _ in left], share)
        open_ = _open(left.pop(index)[1], loads, tried)
        if open_:
            return open_
    return ()


def _draw(weights: Sequence[float], share: float) -> tuple[int, float]:
    """Whose interval ``share`` falls into, and where in it, as a share again: a second draw is as even as the first."""
    position = share * sum(weights)
    for index, weight in enumerate(weights):
        if position < weight:
            return index, position / weight
        position -= weight
    return len(weights) - 1, 0.0  # rounding


def _open(replicas: Sequence[Replica], loads: Loads, tried: Collection[str]) -> Sequence[Replica]:
    requests = loads.requests
    open_ = [r for r in replicas if r.capacity is None or requests.get(r.id, 0) < r.capacity]
    return [replica for replica in open_ if replica.id not in tried] if tried else open_


def least_outstanding(among: Sequence[Replica], loads: Loads, rng: Random) -> Replica | None:
    """The replica with the fewest outstanding tokens, of equal ones that with the fewest requests, then any of them.

    Beyond 16 replicas: the better of two drawn at random (Mitzenmacher, *The Power of Two Choices in Randomized Load
    Balancing*, 2001). None where there is none to choose from.
    """
    if len(among) > SCAN_UP_TO:
        return two_choices(among, loads, rng)
    requests, tokens = loads.requests, loads.tokens
    best: list[Replica] = []
    least = fewest = 0
    for replica in among:
        outstanding = tokens.get(replica.id, 0)
        if best and outstanding > least:
            continue
        count = requests.get(replica.id, 0)
        if not best or outstanding < least or count < fewest:
            best, least, fewest = [replica], outstanding, count
        elif count == fewest:
            best.append(replica)
    if len(best) < 2:
        return best[0] if best else None
    return best[int(rng.random() * len(best))]


def two_choices(among: Sequence[Replica], loads: Loads, rng: Random) -> Replica | None:
    """The less loaded of two replicas drawn at random; None where there is none to choose from."""
    if len(among) < 2:
        return among[0] if among else None
    first = int(rng.random() * len(among))
    second = int(rng.random() * (len(among) - 1))
    one, other = among[first], among[second + (second >= first)]
    return other if _load(other, loads) < _load(one, loads) else one


def _load(replica: Replica, loads: Loads) -> tuple[int, int]:
    return loads.tokens.get(replica.id, 0), loads.requests.get(replica.id, 0)
