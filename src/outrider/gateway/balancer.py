"""Which replica gets a request. Pure: loads and randomness are arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from random import Random

from outrider.gateway.table import Endpoint, Replica

_SCAN_UP_TO = 16
"""Up to here every replica is looked at; beyond, two drawn at random are nearly as good, however many there are."""


def free(replica: Replica, loads: Mapping[str, int]) -> bool:
    """Whether a replica is below its capacity."""
    return replica.capacity is None or loads.get(replica.id, 0) < replica.capacity


def choose(endpoint: Endpoint, loads: Mapping[str, int], rng: Random, *, tried: Collection[str] = ()) -> Replica | None:
    """The replica for the next request of an endpoint, or None while none can take it.

    The revision is drawn by weight; where it has no free replica, a request goes to another with weight rather than
    waiting, and to one without weight only where no other revision has replicas at all.

    Args:
        endpoint: with its ready replicas.
        loads: requests in flight by replica id.
        rng: source of draws.
        tried: ids of replicas that this request has failed on.
    """
    candidates = [replica for replica in endpoint.replicas if replica.id not in tried] if tried else endpoint.replicas
    if len(candidates) == 1:
        return candidates[0] if free(candidates[0], loads) else None
    if len(endpoint.revisions) < 2:
        return least_outstanding(candidates, loads, rng)
    weights = {revision.number: revision.weight for revision in endpoint.revisions if revision.weight > 0}
    weighted = [replica for replica in candidates if replica.revision in weights] or candidates
    open_ = [replica for replica in weighted if free(replica, loads)]
    numbers = sorted({replica.revision for replica in open_})
    if len(numbers) > 1:
        number = rng.choices(numbers, [weights.get(number, 1.0) for number in numbers])[0]
        open_ = [replica for replica in open_ if replica.revision == number]
    return least_outstanding(open_, loads, rng)


def least_outstanding(candidates: Sequence[Replica], loads: Mapping[str, int], rng: Random) -> Replica | None:
    """The replica with the fewest requests in flight among those with room; ties are broken at random.

    Many replicas: the better of two drawn at random, and a full scan only where neither has room.
    """
    if len(candidates) > _SCAN_UP_TO:
        pair = [replica for replica in rng.sample(candidates, 2) if free(replica, loads)]
        if pair:
            return min(pair, key=lambda replica: loads.get(replica.id, 0))
    best: list[Replica] = []
    least = 0
    for replica in candidates:
        load = loads.get(replica.id, 0)
        if replica.capacity is not None and load >= replica.capacity:
            continue
        if not best or load < least:
            best, least = [replica], load
        elif load == least:
            best.append(replica)
    if not best:
        return None
    return best[0] if len(best) == 1 else best[int(rng.random() * len(best))]
