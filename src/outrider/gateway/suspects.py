"""Which replicas gave no answer, and until when they are passed over. Pure: time is an argument.

The table says who should be there; this says who was not, until the next table. A replica that cannot be connected to,
or that drops a request before it answers, is skipped for half a second, then tried by one request, then for twice as
long, and so on until it answers one.
"""

from __future__ import annotations

from collections.abc import Collection

FIRST = 0.5
"""Seconds a replica is skipped for at first: an engine that only restarts its listener is back by then."""

LONGEST = 10.0
"""Seconds at most between two tries: what a replica that is back may go unused, where no new table says so earlier."""


class Suspects:
    """Replicas that gave no answer of late."""

    __slots__ = ("_delays", "_trying", "_until")

    def __init__(self) -> None:
        self._until: dict[str, float] = {}
        self._delays: dict[str, float] = {}
        self._trying: set[str] = set()

    def __bool__(self) -> bool:
        """Whether there are any: asked on every request, so it costs next to nothing when there are none."""
        return bool(self._delays)

    def failed(self, replica: str, now: float) -> None:
        """A request got nothing from it. Requests that were on their way together count as one failure."""
        if self._until.get(replica, now) > now and replica not in self._trying:
            return
        self._trying.discard(replica)
        delay = self._delays.get(replica)
        self._delays[replica] = delay = FIRST if delay is None else min(2 * delay, LONGEST)
        self._until[replica] = now + delay

    def trying(self, replica: str, now: float, within: float) -> None:
        """A request is sent to a suspect: the others go on passing it over for ``within`` seconds, or until decided."""
        if self._until.get(replica, now + 1.0) <= now:
            self._trying.add(replica)
            self._until[replica] = now + within

    def reached(self, replica: str) -> None:
        """A connect has worked: it is passed over no longer, but for longer than before if it does not answer."""
        self._until.pop(replica, None)
        self._trying.discard(replica)

    def works(self, replica: str) -> None:
        """It has answered."""
        self.reached(replica)
        self._delays.pop(replica, None)

    def skipped(self, now: float) -> set[str]:
        """Ids of those to be passed over now."""
        return {replica for replica, until in self._until.items() if until > now}

    def retain(self, live: Collection[str]) -> None:
        """Forget all replicas but these."""
        for replica in [replica for replica in self._delays if replica not in live]:
            self.works(replica)
