"""Which replica gets a request that has reason to return to one. Pure: loads and randomness are arguments.

Affinity pays while the way is short: a replica that has the beginning of a prompt in its cache saves reading it anew,
but one with a long queue loses more than that. So affinity is *sticky until saturated*: it holds only while the
replica is within slack of the least loaded candidate, in outstanding tokens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import Protocol

from outrider.gateway.balancer import SCAN_UP_TO, Loads, least_outstanding
from outrider.gateway.demand import Demand
from outrider.gateway.table import Replica

_MASK = (1 << 64) - 1
_ODD = 0x9E3779B97F4A7C15
"""2⁶⁴ ÷ the golden ratio: a product with it, folded, spreads a difference in any bit over all of them."""


class Policy(Protocol):
    """How one of several candidates is chosen."""

    def __call__(
        self, demand: Demand, among: Sequence[Replica], loads: Loads, slack: int, rng: Random
    ) -> Replica | None:
        """The replica for a request, or None where there is no candidate.

        Args:
            demand: of the request.
            among: replicas with room, ready, of one revision.
            loads: of the replicas.
            slack: outstanding tokens by which an affine replica may exceed the least loaded one.
            rng: source of draws.
        """
        ...


def affine(demand: Demand, among: Sequence[Replica], loads: Loads, slack: int, rng: Random) -> Replica | None:
    """The gateway's policy: by affinity key where there is one, else by prefix, else the least loaded.

    A key whose own replica is beyond slack goes to one that was sent the beginning of its prompt, if any is within.
    """
    if len(among) < 2:
        return among[0] if among else None
    if demand.affinity is None:
        return by_prefix(demand, among, loads, slack, rng)
    home = _first(demand.affinity, among)
    near = _near(among, loads, slack, rng)
    return home if home in near else _first(demand.affinity, _sent(demand, near, loads) or near)


def by_key(demand: Demand, among: Sequence[Replica], loads: Loads, slack: int, rng: Random) -> Replica | None:
    """The first replica within slack in the key's own order of them; the least loaded for a request without a key.

    The order is by rendezvous hashing (Thaler and Ravishankar, 1998): every gateway finds the same without talking,
    a replica that leaves moves only its own keys, and one that comes takes an equal share from each. A key whose
    replica is saturated always goes on to the same second one, which then has its prefixes too.
    """
    if demand.affinity is None or not among:
        return least_outstanding(among, loads, rng)
    return _first(demand.affinity, _near(among, loads, slack, rng))


def by_prefix(demand: Demand, among: Sequence[Replica], loads: Loads, slack: int, rng: Random) -> Replica | None:
    """The replica that was sent the longest beginning of the prompt, among those within slack of the least loaded.

    Of several that were sent as much, the least loaded. Where all of them are beyond slack, those that were sent less.
    """
    if demand.blocks and among:
        among = _sent(demand, _near(among, loads, slack, rng), loads) or among
    return least_outstanding(among, loads, rng)


def key_hash(key: str) -> int:
    """64 bits of an affinity key, the same in every process."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def share(demand: Demand, rng: Random) -> float:
    """What draws the revision, in [0, 1): fixed by the affinity key, so that one conversation stays on one revision."""
    return rng.random() if demand.affinity is None else key_hash(demand.affinity) / 2**64


def _first(key: str, among: Sequence[Replica]) -> Replica:
    """The first of some replicas in a key's order of them."""
    place = key_hash(key)
    chosen, highest = among[0], -1
    for replica in among:
        product = (place ^ _replica_hash(replica.id)) * _ODD
        score = (product ^ product >> 64) & _MASK
        if score > highest:
            chosen, highest = replica, score
    return chosen


@lru_cache(maxsize=4096)
def _replica_hash(replica: str) -> int:
    return key_hash(f"replica\x00{replica}")


def _near(among: Sequence[Replica], loads: Loads, slack: int, rng: Random) -> Sequence[Replica]:
    """Those within slack of the least loaded; where they are many, of the least loaded of eight drawn at random."""
    tokens = loads.tokens
    drawn = among if len(among) <= SCAN_UP_TO else rng.sample(among, SCAN_UP_TO // 2)
    limit = min([tokens.get(replica.id, 0) for replica in drawn]) + slack
    return [replica for replica in among if tokens.get(replica.id, 0) <= limit]


def _sent(demand: Demand, near: Sequence[Replica], loads: Loads) -> Sequence[Replica]:
    """Those that were sent the longest beginning of the prompt; none where nobody was sent any."""
    for _, owners in loads.prefixes.owners(demand.blocks):
        held = [replica for replica in near if replica.id in owners]
        if held:
            return held
    return ()
