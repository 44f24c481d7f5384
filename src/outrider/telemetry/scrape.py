"""Reads engines' metrics pages, each second. What does not answer is asked again the next second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import httpx

from outrider.engines.normalise import NORMALISERS, EngineMetrics

_log = logging.getLogger(__name__)

PERIOD = 1.0
"""Seconds between two pages of an engine: what is watched is redrawn as often."""

_TIMEOUT = 2.0
"""Seconds. An engine answers between two of its steps, and a long prefill is one step."""


@dataclass(frozen=True, slots=True)
class Target:
    """An engine to read: the replica it is, its name, its page, and its own key."""

    replica: str
    engine: str
    url: str
    key: str


async def scrape(client: httpx.AsyncClient, target: Target) -> EngineMetrics | None:
    """One page, normalised. None: it did not come, or Outrider has no normaliser for this engine."""
    normalise = NORMALISERS.get(target.engine)
    if normalise is None:
        return None
    try:
        answer = await client.get(target.url, headers={"authorization": f"Bearer {target.key}"})
        answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        _log.debug("no metrics of replica %s: %r", target.replica, error)
        return None
    return await asyncio.to_thread(normalise, answer.text)


class Scraper:
    """Reads every target's page once a :data:`PERIOD`, until it is cancelled.

    Args:
        targets: what to read now.
        take: is given each page that came, in the event loop, with the replica's id.
        sleep: ``asyncio.sleep``.
    """

    def __init__(
        self,
        targets: Callable[[], Awaitable[Sequence[Target]]],
        take: Callable[[str, EngineMetrics], None],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._targets = targets
        self._take = take
        self._sleep = sleep

    async def run(self) -> None:
        """Read, wait, and again. A round that fails is told of and made again."""
        async with httpx.AsyncClient(timeout=_TIMEOUT, trust_env=False) as client:
            while True:
                try:
                    await asyncio.gather(*(self._read(client, target) for target in await self._targets()))
                except Exception:
                    _log.exception("engines' metrics could not be read; they are asked again")
                await self._sleep(PERIOD)

    async def _read(self, client: httpx.AsyncClient, target: Target) -> None:
        page = await scrape(client, target)
        if page is not None:
            self._take(target.replica, page)
