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


def free(replica: Replica, loads: Loads) -> bool:
    """Whether a replica is below its capacity."""
    return replica.capacity is None or loads.requests.get(replica.id, 0) < replica.capacity


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
    replicas = endpoint.replicas
    requests = loads.requests
    open_ = [r for r in replicas if (r.capacity is None or requests.get(r.id, 0) < r.capacity) and r.id not in tried]
    if len(endpoint.revisions) < 2 or len(replicas) < 2:
        return open_
    weights = {revision.number: revision.weight for revision in endpoint.revisions if revision.weight > 0}
    if any(replica.revision in weights for replica in replicas if replica.id not in tried):
        open_ = [replica for replica in open_ if replica.revision in weights]
    numbers = sorted({replica.revision for replica in open_})
    if len(numbers) < 2:
        return open_
    left = share * sum(weights.get(number, 1.0) for number in numbers)
    for number in numbers:
        left -= weights.get(number, 1.0)
        if left < 0:
            break
    return [replica for replica in open_ if replica.revision == number]


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
