"""Endpoints: what is wanted of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from outrider.errors import EndpointExists, EndpointNotFound, GenerationMismatch
from outrider.store.database import Database
from outrider.store.schema import endpoints


@dataclass(frozen=True, slots=True)
class EndpointRecord:
    """One endpoint. ``desired``: "running" or "stopped"; ``revision``: the one wanted; times in UTC ms."""

    name: str
    spec: dict[str, Any] | None
    desired: str
    revision: int | None
    generation: int
    source_edited: bool
    created_at: int
    updated_at: int


class Endpoints:
    """The endpoints table."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def list(self) -> list[EndpointRecord]:
        """All, by name."""
        with self._database.begin() as connection:
            rows = connection.execute(select(endpoints).order_by(endpoints.c.name)).mappings()
            return [EndpointRecord(**row) for row in rows]

    def get(self, name: str, connection: Connection | None = None) -> EndpointRecord:
        """One. Raises EndpointNotFound."""
        with self._database.begin(connection) as active:
            row = active.execute(select(endpoints).where(endpoints.c.name == name)).mappings().one_or_none()
        if row is None:
            raise EndpointNotFound(f"No endpoint {name[:80]!r}", remedy="See them with: outrider endpoint list")
        return EndpointRecord(**row)

    def insert(self, name: str, spec: dict[str, Any] | None, *, at: int, connection: Connection | None = None) -> None:
        """Make one, wanted running, with no revision yet. Raises EndpointExists."""
        values = {"name": name, "spec": spec, "desired": "running", "generation": 1, "source_edited": False}
        try:
            with self._database.begin(connection) as active:
                active.execute(insert(endpoints).values(**values, created_at=at, updated_at=at))
        except IntegrityError as error:
            raise exists_already(name) from error

    def update(
        self, name: str, *, at: int, expected: int | None = None, connection: Connection | None = None, **values: Any
    ) -> None:
        """Change fields and count the generation up.

        Raises:
            EndpointNotFound; GenerationMismatch: ``expected`` is given and not the present generation.
        """
        with self._database.begin(connection) as active:
            present = self.get(name, active).generation
            require_generation(name, expected, present)
            changes = {**values, "updated_at": at, "generation": present + 1}
            where = (endpoints.c.name == name, endpoints.c.generation == present)
            # On SQLite nobody can come between; elsewhere the condition on the generation notices who did.
            if active.execute(update(endpoints).where(*where).values(**changes)).rowcount != 1:
                raise _changed(name, f"generation {present} was replaced while this change was made")

    def set_revision(self, name: str, number: int, *, at: int) -> None:
        """Want another revision."""
        self.update(name, at=at, revision=number)

    def delete(self, name: str, connection: Connection | None = None) -> None:
        """Forget one and its revisions. Nothing happens if there is none."""
        with self._database.begin(connection) as active:
            active.execute(delete(endpoints).where(endpoints.c.name == name))


def exists_already(name: str) -> EndpointExists:
    """The error of making what is there."""
    remedy = f"Choose another name, or remove it with: outrider endpoint rm {name} --purge"
    return EndpointExists(f"There is an endpoint {name!r} already", remedy=remedy)


def require_generation(name: str, expected: int | None, present: int | None) -> None:
    """Raise GenerationMismatch where a generation is expected and it is not the present one (None: no endpoint)."""
    if expected is not None and expected != present:
        where = "there is no such endpoint" if present is None else f"it is at {present}"
        raise _changed(name, f"you have generation {expected}, {where}")


def _changed(name: str, why: str) -> GenerationMismatch:
    return GenerationMismatch(f"{name} changed meanwhile", why=why, remedy="Read it again and repeat the change.")
