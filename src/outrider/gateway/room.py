"""A waiting room that is bounded and fair between keys. Pure: who waits is opaque, nothing is called back.

Who waits is served in the order of start tags (Goyal, Vin and Cheng, *Start-time Fair Queuing*, 1996): a request starts
where the one before it of the same key ends, in tokens. So keys take turns by tokens, not by how many requests they
heap up, and one request of a quiet key is next but one at most, however many a busy key has sent ahead of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Room(Generic[T]):
    """Who waits for one endpoint.

    Requests that come back because a replica failed stand apart: they have waited before, so they go first, and they
    block nobody, since what they wait for is a replica other than the one that failed them.

    Args:
        places: how many may wait.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._returned: dict[T, str] = {}
        self._queues: dict[str, dict[T, float]] = {}
        self._keys: dict[T, str] = {}
        self._ends: dict[str, float] = {}
        self._now = 0.0

    def __len__(self) -> int:
        """How many wait."""
        return len(self._keys) + len(self._returned)

    @property
    def returned(self) -> tuple[T, ...]:
        """Those that a replica has failed, in order."""
        return tuple(self._returned)

    @property
    def first(self) -> T | None:
        """Whose turn it is among the others."""
        best: T | None = None
        least = 0.0
        for queue in self._queues.values():
            one, start = next(iter(queue.items()))
            if best is None or start < least:
                best, least = one, start
        return best

    def everybody(self) -> Iterator[T]:
        """All who wait, in no order that matters."""
        yield from tuple(self._returned)
        yield from tuple(self._keys)

    def enter(self, one: T, key: str, tokens: int, *, returned: bool = False) -> T | None:
        """Take a place. Where none is free, somebody has to go: gives who that is, or None.

        It is the latest of the key that holds the most places, and ``one`` itself where its own key holds as many.
        """
        if len(self) >= self._places:
            busiest = max(self._queues, key=lambda name: len(self._queues[name]), default=None)
            if busiest is None or len(self._queues[busiest]) <= len(self._queues.get(key, ())) + 1:
                return one
            out = next(reversed(self._queues[busiest]))
            self.leave(out)
        else:
            out = None
        if returned:
            self._returned[one] = key
        else:
            start = max(self._now, self._ends.get(key, 0.0))
            self._ends[key] = start + max(1, tokens)
            self._keys[one] = key
            self._queues.setdefault(key, {})[one] = start
        return out

    def leave(self, one: T, *, served: bool = False) -> None:
        """Give a place up; ``served`` moves the turn on."""
        if self._returned.pop(one, None) is not None:
            return
        key = self._keys.pop(one)
        queue = self._queues[key]
        start = queue.pop(one)
        if served:
            self._now = max(self._now, start)
        if not queue:
            del self._queues[key]
            if self._ends[key] <= self._now:
                del self._ends[key]
        if len(self._ends) > 4 * self._places:  # keys that left before their time was up, and never came back
            self._ends = {name: end for name, end in self._ends.items() if end > self._now or name in self._queues}
