"""Simulated time: calls in the order of their moments, equal moments in the order in which they were asked for."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count


class Timer:
    """A call to come."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        """Never make it."""
        self.call = None


class Clock:
    """A clock that jumps to whatever comes next.

    Attributes:
        now: seconds since the start.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._order = count()
        self._due: list[tuple[float, int, Timer]] = []

    def at(self, moment: float, call: Callable[[], object]) -> Timer:
        """Call at a moment; one that has passed is now."""
        timer = Timer(call)
        heapq.heappush(self._due, (max(moment, self.now), next(self._order), timer))
        return timer

    def later(self, delay: float, call: Callable[[], object]) -> Timer:
        """Call after so many seconds; as ``loop.call_later``."""
        return self.at(self.now + delay, call)

    def step(self) -> bool:
        """Make the next call; False where there is none left."""
        while self._due:
            moment, _, timer = heapq.heappop(self._due)
            if timer.call is not None:
                self.now = moment
                timer.call()
                return True
        return False
