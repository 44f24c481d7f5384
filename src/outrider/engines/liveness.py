"""Whether a running engine still makes tokens.

A health page stays green while requests stall, and a busy engine may answer a small request late without being ill. So
the engine's own counters are looked at: while requests run, tokens must move; while none runs, one token is asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from outrider.engines.normalise import EngineMetrics
from outrider.errors import ReplicaFailed

INTERVAL = 30.0
"""Seconds between two looks (30: one token every half minute is nothing even to a CPU)."""
PATIENCE = 120.0
"""Seconds that requests may run while no counter moves (120: one step may be a long prompt on a slow machine)."""


class Liveness:
    """Remembers the last look at one engine.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._next: float | None = None
        self._moved = 0.0
        self._seen: tuple[object, ...] = ()

    def begin(self) -> None:
        """Look from now on: the engine is warm."""
        self._moved = self._clock()
        self._next = self._moved + INTERVAL

    def end(self) -> None:
        """Look no more: it is being stopped, or sleeps."""
        self._next = None

    def alive(self, page: Callable[[], EngineMetrics], one_token: Callable[[], None]) -> bool:
        """Whether it was alive at the last look; looks again where one is due. After a failed look each call looks.

        Args:
            page: reads the engine's metrics. one_token: asks for one token on the path that users' requests take.
        """
        if self._next is None or self._clock() < self._next:
            return True
        try:
            found = page()
            healthy = self._busy(found) if found.running or found.waiting else self._idle(one_token)
        except (OSError, ReplicaFailed):
            return False
        if healthy:
            self._next = self._clock() + INTERVAL
        return healthy

    def _busy(self, found: EngineMetrics) -> bool:
        # Tokens alone would not do: some engines count a request's when it ends, and a stream may last an hour.
        counters = (found.prompt_tokens, found.generated_tokens, found.work, found.itl)
        if counters != self._seen:
            self._seen, self._moved = counters, self._clock()
        return self._clock() - self._moved <= PATIENCE

    def _idle(self, one_token: Callable[[], None]) -> bool:
        one_token()
        self._moved = self._clock()
        return True
