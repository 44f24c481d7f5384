"""``…/replicas/{id}/logs`` as it grows: server-sent events that go on from one replica to the next."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from outrider.errors import EndpointNotFound
from outrider.placement.base import Log

LATEST = "latest"
"""Stands for the newest replica, whichever that is by then."""
_POLL = 0.25
"""Seconds between two looks: what a person takes for at once, and one `stat` and two short queries."""
_READS = 16
"""Pieces of a log sent before the replicas are looked at again: a flood must not hide that one was replaced."""
_WHOLE = 10_000
"""Lines that a further replica begins with: all it wrote since it was started a moment ago."""

Replicas = Callable[[], list[dict[str, Any]]]
"""The views of an endpoint's replicas. Raises EndpointNotFound once it is removed."""
Open = Callable[[str, int], Log | None]
"""The log of a replica, from its last lines on; None: there is no such replica."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Lines of one replica; none: that replica's log begins here. ``replica`` None: there is no replica yet."""

    replica: str | None
    lines: list[str]


class Following:
    """One reader of an endpoint's logs. All methods block.

    Args:
        replicas: looks at the endpoint.
        open: opens a replica's log.
        wanted: a replica's id, or ``latest``.
        lines: how many of its last lines to begin with.
    """

    def __init__(self, replicas: Replicas, open: Open, wanted: str, lines: int) -> None:
        self._replicas = replicas
        self._open = open
        self._wanted = wanted
        self._lines = lines
        self._current: str | None = None
        self._log: Log | None = None
        self.over = False
        """Whether nothing will come any more: the endpoint is removed, or the one replica that was wanted is gone."""

    def look(self) -> list[Piece]:
        """What came since the last look."""
        try:
            replicas = self._replicas()
        except EndpointNotFound:
            return self._end()
        chosen = newest(replicas, self._wanted)
        if chosen is None and self._wanted != LATEST:
            return self._end()
        if chosen is None:
            return self._rest() if self._current else []
        pieces = [] if chosen == self._current else self._go_to(chosen)
        for _ in range(_READS):
            lines = self._log.read() if self._log else []
            if not lines:
                break
            pieces.append(Piece(self._current, lines))
        return pieces

    def close(self) -> None:
        """Close the log."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def _go_to(self, replica: str) -> list[Piece]:
        log = self._open(replica, self._lines if self._current is None else _WHOLE)
        if log is None:
            return []  # it went as soon as it came; the next look sees what follows
        pieces = self._rest()
        self.close()
        self._current, self._log = replica, log
        return [*pieces, Piece(replica, [])]

    def _rest(self) -> list[Piece]:
        lines = self._log.rest() if self._log else []
        return [Piece(self._current, lines)] if lines else []

    def _end(self) -> list[Piece]:
        self.over = True
        return self._rest()


def newest(replicas: list[dict[str, Any]], wanted: str) -> str | None:
    """The id of the wanted replica (``latest``: the newest), None if it is not there."""
    chosen = [replica for replica in replicas if wanted in (replica["id"], LATEST)]
    return str(max(chosen, key=lambda replica: replica["created_at"])["id"]) if chosen else None


async def stream(following: Following) -> AsyncIterator[str]:
    """Server-sent events, each a :class:`Piece` as JSON, until it is over or the reader leaves."""
    try:
        pieces = await asyncio.to_thread(following.look)
        for piece in pieces or [Piece(None, [])]:
            yield _event(piece)
        while not following.over:
            await asyncio.sleep(_POLL)
            for piece in await asyncio.to_thread(following.look):
                yield _event(piece)
    finally:
        following.close()


def _event(piece: Piece) -> str:
    return f"event: log\ndata: {json.dumps({'replica': piece.replica, 'lines': piece.lines})}\n\n"
