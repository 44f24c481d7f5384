"""Events: what happened, and why. The newest of each endpoint are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, insert, select

from outrider.store.database import Database
from outrider.store.schema import events

KEPT = 1_000
"""Events kept per endpoint: months of a quiet one, hours of one that crashes in a loop."""


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One event; ``id`` grows with time, ``at`` is UTC ms."""

    id: int
    at: int
    endpoint: str | None
    replica: str | None
    revision: int | None
    kind: str
    reason: str
    message: str
    data: dict[str, Any]


class Events:
    """The events table."""

    def __init__(self, database: Database, *, kept: int = KEPT) -> None:
        self._database = database
        self._kept = kept

    def append(
        self,
        *,
        at: int,
        endpoint: str | None,
        replica: str | None,
        revision: int | None,
        kind: str,
        reason: str,
        message: str,
        data: Mapping[str, Any],
    ) -> int:
        """Store one and forget the oldest beyond what is kept; its id."""
        row = {"at": at, "endpoint": endpoint, "replica": replica, "revision": revision, "kind": kind}
        with self._database.begin() as connection:
            done = connection.execute(insert(events).values(**row, reason=reason, message=message, data=dict(data)))
            same = events.c.endpoint.is_(None) if endpoint is None else events.c.endpoint == endpoint
            oldest = select(events.c.id).where(same).order_by(events.c.id.desc()).offset(self._kept).limit(1)
            limit = connection.execute(oldest).scalar()
            if limit is not None:
                connection.execute(delete(events).where(same, events.c.id <= limit))
            key = done.inserted_primary_key
        return int(key[0]) if key else 0

    def list(self, endpoint: str | None = None, *, after: int = 0, limit: int = 200) -> list[EventRecord]:
        """Of one endpoint (or all), oldest first, at most ``limit``.

        With ``after`` the next ones after that id, so that a follower misses none; without it the newest.
        """
        order = events.c.id.asc() if after else events.c.id.desc()
        query = select(events).where(events.c.id > after).order_by(order).limit(limit)
        if endpoint is not None:
            query = query.where(events.c.endpoint == endpoint)
        with self._database.begin() as connection:
            found = [EventRecord(**row) for row in connection.execute(query).mappings()]
        return found if after else found[::-1]

    def delete(self, endpoint: str) -> None:
        """Forget those of a purged endpoint."""
        with self._database.begin() as connection:
            connection.execute(delete(events).where(events.c.endpoint == endpoint))
