"""When requests come: open loops, where arrivals do not wait for answers.

A closed loop (a fixed number of requests in flight) slows down with the server and hides what a queue does to users;
an open loop does not. Both are useful, and a report says which one it was.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

Arrivals = Literal["poisson", "constant"]


def poisson(rate: float, rng: random.Random) -> Iterator[float]:
    """Endless arrival times in seconds from 0, ``rate`` a second on average: gaps are exponential, as from many
    users who know nothing of each other.
    """
    now = 0.0
    while True:
        now += rng.expovariate(rate)
        yield now


def constant(rate: float) -> Iterator[float]:
    """Endless arrival times in seconds from 0, one every 1/``rate`` seconds exactly."""
    number = 0
    while True:
        yield number / rate
        number += 1


def arrivals(kind: Arrivals, rate: float, rng: random.Random) -> Iterator[float]:
    """Arrival times of either kind; ``rate`` is requests a second."""
    return poisson(rate, rng) if kind == "poisson" else constant(rate)
