"""A clock that a test moves, in place of the event loop's."""

from __future__ import annotations

from collections.abc import Callable


class Timer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call, self.live = at, call, True

    def cancel(self) -> None:
        self.live = False


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def later(self, delay: float, call: Callable[[], None]) -> Timer:
        timer = Timer(self.now + delay, call)
        self.timers.append(timer)
        return timer

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [timer for timer in self.timers if timer.live and timer.at <= self.now]
        self.timers = [timer for timer in self.timers if timer.live and timer.at > self.now]
        for timer in due:
            if timer.live:
                timer.call()
