"""What to do next for one endpoint: a pure function of what is wanted, what is seen, and the time.

Fixed replica counts; a new revision is brought up beside the old one, takes the traffic when all its replicas are
ready, and only then are the old ones drained. A revision that fails before it was ever ready is given up at once (its
error is the user's, a second try would tell the same); one that has served is replaced with growing pauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrider.app.server import Stage

_BACKOFF_FIRST = 1_000
_BACKOFF_LONGEST = 60_000
_UNPUBLISH = 1_200
"""Milliseconds from leaving the routing table to believing an in-flight count: two report intervals and some."""
_KILL_MARGIN = 10_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an endpoint should look like. Times in ms.

    Attributes:
        running: replicas are wanted at all.
        revision: the revision wanted; None: none yet.
        proven: that revision has been ready once.
        count: replicas wanted.
        grace: time for requests in flight when a replica stops.
        failures: consecutive failures of that revision's replicas, with the time of the last.
    """

    running: bool
    revision: int | None
    proven: bool
    count: int
    grace: int
    failures: int = 0
    failed_at: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """A replica as observed. ``draining_since``: left the table; ``stopping_since``: was told to end (UTC ms)."""

    id: str
    revision: int
    alive: bool
    stage: Stage
    in_flight: int
    draining_since: int | None
    stopping_since: int | None


@dataclass(frozen=True, slots=True)
class Start:
    """Start a replica of ``revision``."""

    revision: int


@dataclass(frozen=True, slots=True)
class Activate:
    """All replicas of ``revision`` are ready: it takes the traffic."""

    revision: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Take a replica out of the table."""

    replica: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Tell a drained replica to end."""

    replica: str


@dataclass(frozen=True, slots=True)
class Kill:
    """End a replica by force."""

    replica: str
    reason: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Forget a replica that ended."""

    replica: str


Action = Start | Activate | Drain | Stop | Kill | Remove


def reconcile(wanted: Wanted, seen: Sequence[Seen], now: int) -> list[Action]:
    """The actions that bring what is seen nearer to what is wanted; none when they agree."""
    actions: list[Action] = [Remove(replica.id) for replica in seen if not replica.alive]
    live = [replica for replica in seen if replica.alive]
    for replica in live:
        actions += _ending(replica, wanted, now)
    serving = [replica for replica in live if replica.draining_since is None]
    if not wanted.running or wanted.revision is None:
        return actions + [Drain(replica.id, "the endpoint is stopped") for replica in serving]
    current = [replica for replica in serving if replica.revision == wanted.revision]
    others = [replica for replica in serving if replica.revision != wanted.revision]
    ready = sum(replica.stage is Stage.READY for replica in current)
    if ready >= wanted.count:
        if not wanted.proven:
            actions.append(Activate(wanted.revision))
        actions += [Drain(replica.id, f"revision {wanted.revision} replaces it") for replica in others]
    # Whoever died is buried first: whether another is started is decided with that failure counted.
    buried = all(replica.alive or replica.revision != wanted.revision for replica in seen)
    if buried and len(current) < wanted.count and now >= wanted.failed_at + backoff(wanted.failures):
        actions += [Start(wanted.revision)] * (wanted.count - len(current))
    spare = sorted(current, key=lambda replica: (replica.stage is Stage.READY, replica.id))
    actions += [Drain(replica.id, "more replicas than wanted") for replica in spare[: len(current) - wanted.count]]
    return actions


def backoff(failures: int) -> int:
    """Milliseconds to wait after so many failures in a row: 0, 1 s, 2 s, 4 s, … 60 s."""
    return 0 if failures == 0 else min(_BACKOFF_LONGEST, _BACKOFF_FIRST * 2 ** min(failures - 1, 10))


def _ending(replica: Seen, wanted: Wanted, now: int) -> list[Action]:
    if replica.draining_since is None:
        return []
    drained = now - replica.draining_since
    if replica.stopping_since is None:
        idle = replica.in_flight == 0 and drained >= _UNPUBLISH
        return [Stop(replica.id)] if idle or drained >= wanted.grace or replica.stage is not Stage.READY else []
    if now - replica.stopping_since >= wanted.grace + _KILL_MARGIN:
        return [Kill(replica.id, "it did not end within its grace period")]
    return []
