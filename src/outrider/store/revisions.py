"""Revisions: immutable sources with their plans; only their status changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from outrider.errors import RevisionNotFound
from outrider.store.database import LARGEST, Database
from outrider.store.schema import revisions


@dataclass(frozen=True, slots=True)
class RevisionRecord:
    """One revision.

    ``origin``: planned, deployed or rollback; ``status``: new, active, retired or failed (with its ``reason``).
    """

    endpoint: str
    number: int
    digest: str
    source: str
    plan: dict[str, Any] | None
    declaration: dict[str, Any]
    origin: str
    status: str
    reason: str | None
    created_at: int


class Revisions:
    """The revisions table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self, endpoint: str) -> list[RevisionRecord]:
        """All of an endpoint, oldest first."""
        query = select(revisions).where(revisions.c.endpoint == endpoint).order_by(revisions.c.number)
        with self._database.begin() as connection:
            return [RevisionRecord(**row) for row in connection.execute(query).mappings()]

    def get(self, endpoint: str, number: int) -> RevisionRecord:
        """One. Raises RevisionNotFound."""
        query = select(revisions).where(revisions.c.endpoint == endpoint, revisions.c.number == number)
        row = None
        if abs(number) <= LARGEST:
            with self._database.begin() as connection:
                row = connection.execute(query).mappings().one_or_none()
        if row is None:
            raise RevisionNotFound(
                f"{endpoint} has no revision {number}", remedy=f"See them with: outrider endpoint info {endpoint}"
            )
        return RevisionRecord(**row)

    def append(
        self,
        endpoint: str,
        *,
        digest: str,
        source: str,
        plan: dict[str, Any] | None,
        declaration: dict[str, Any],
        origin: str,
        at: int,
        connection: Connection | None = None,
    ) -> int:
        """Add the next revision, status new; its number (1, 2, … per endpoint)."""
        with self._database.begin(connection) as active:
            query = select(func.max(revisions.c.number)).where(revisions.c.endpoint == endpoint)
            number = (active.execute(query).scalar() or 0) + 1
            active.execute(
                insert(revisions).values(
                    endpoint=endpoint,
                    number=number,
                    digest=digest,
                    source=source,
                    plan=plan,
                    declaration=declaration,
                    origin=origin,
                    status="new",
                    created_at=at,
                )
            )
            return int(number)

    def set_status(self, endpoint: str, number: int, status: str, *, reason: str | None) -> None:
        """Change what became of a revision, and why."""
        where = (revisions.c.endpoint == endpoint, revisions.c.number == number)
        with self._database.begin() as connection:
            connection.execute(update(revisions).where(*where).values(status=status, reason=reason))
