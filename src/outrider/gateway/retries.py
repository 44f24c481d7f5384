"""How many requests may be sent a second time, so that an outage is not amplified. Pure: time is an argument."""

from __future__ import annotations

from collections import deque

ATTEMPTS = 3
"""Replicas a request is sent to at most: the first and two more. A request that three replicas fail is at fault
itself more often than they are."""

STATUSES = frozenset({429, 502, 503})
"""Answers of a replica that say *not done, and not here*: another may do it."""

RATIO = 0.1
"""Retries per request: a tenth more load is what an endpoint with room to spare carries without noticing."""

WINDOW = 10
"""Seconds over which requests and retries are counted: longer than a replica takes to be taken out of the table."""

LEAST = 3
"""Retries within a window that are always allowed: a tenth of few requests is none, and few retries amplify nothing."""


class RetryBudget:
    """The retries of one endpoint: a tenth of the requests of the last 10 s, and at least three.

    On top come the requests that were in flight on a replica that died: they all fail at once, through no fault of
    theirs, and sending each of them to another replica asks no more of the endpoint than it was asked before.
    """

    __slots__ = ("_credit", "_dead", "_past", "_requests", "_retries", "_second", "_seconds")

    def __init__(self) -> None:
        self._second = 0
        self._seconds = [0, 0]
        self._past: deque[tuple[int, int, int]] = deque()
        self._requests = 0
        self._retries = 0
        self._credit: deque[tuple[float, int]] = deque()
        self._dead: dict[str, float] = {}

    def request(self, now: float) -> None:
        """A request has come (``now`` in monotonic seconds)."""
        if int(now) != self._second:
            self._turn(now)
        self._seconds[0] += 1
        self._requests += 1

    def died(self, replica: str, in_flight: int, now: float) -> None:
        """A replica has dropped a request without an answer: what it had in flight may be sent again, once."""
        self._turn(now)
        if replica not in self._dead:
            self._dead[replica] = now
            self._credit.append((now, in_flight))

    def take(self, now: float) -> bool:
        """Whether one more retry is allowed; it then counts."""
        self._turn(now)
        if self._credit:
            at, left = self._credit.popleft()
            if left > 1:
                self._credit.appendleft((at, left - 1))
            return True
        if self._retries >= max(LEAST, RATIO * self._requests):
            return False
        self._seconds[1] += 1
        self._retries += 1
        return True

    def _turn(self, now: float) -> None:
        second = int(now)
        if second != self._second:
            if any(self._seconds):
                self._past.append((self._second, self._seconds[0], self._seconds[1]))
            self._second, self._seconds = second, [0, 0]
        while self._past and self._past[0][0] <= second - WINDOW:
            _, requests, retries = self._past.popleft()
            self._requests -= requests
            self._retries -= retries
        while self._credit and self._credit[0][0] <= now - WINDOW:
            self._credit.popleft()
        for replica in [one for one, at in self._dead.items() if at <= now - WINDOW]:
            del self._dead[replica]
