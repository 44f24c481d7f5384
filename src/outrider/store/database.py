"""The database: SQLite (WAL) by default, PostgreSQL by URL, brought to the newest schema when it is opened."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, select
from sqlalchemy.exc import DatabaseError

from outrider.errors import MachineFault, PermissionRefused
from outrider.store import schema
from outrider.store.migrations import migrations

_BUSY_MS = 10_000
"""How long SQLite waits for another writer; the API's threads and the control loop share the file."""

LARGEST = 2**63 - 1
"""The largest whole number that a column holds."""


class Database:
    """An open database. Thread-safe: each use takes a connection of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @contextmanager
    def begin(self, connection: Connection | None = None) -> Iterator[Connection]:
        """A transaction; inside another one (``connection`` given) it joins that."""
        if connection is not None:
            yield connection
            return
        with self._engine.begin() as new:
            yield new

    @property
    def version(self) -> int:
        """The schema's version."""
        with self._engine.connect() as connection:
            return int(connection.execute(select(schema.schema_version.c.version)).scalar_one())

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


def open_database(where: Path | str) -> Database:
    """Open (and make, and migrate) the database.

    Args:
        where: path of a SQLite file, or an SQLAlchemy URL.

    Raises:
        PermissionRefused: the file cannot be opened or made.
        MachineFault: it is no database, or is newer than this Outrider.
    """
    engine: Engine | None = None
    try:
        with _alone(where):
            engine = _sqlite(where) if isinstance(where, Path) else create_engine(where)
            _migrate(engine, str(where))
    except BaseException as error:
        if engine is not None:
            engine.dispose()
        if not isinstance(error, OSError | DatabaseError):
            raise
        cause = str(getattr(error, "orig", None) or error)
        kind = MachineFault if "not a database" in cause or "malformed" in cause else PermissionRefused
        raise kind(
            f"Cannot open the store {where}", why=cause, remedy="Check the file and its rights, or set OUTRIDER_HOME."
        ) from error
    return Database(engine)


@contextmanager
def _alone(where: Path | str) -> Iterator[None]:
    # Turning a new file to WAL does not wait for another process that does the same: it fails as locked. The lock has a
    # file of its own, since closing any descriptor of the store would drop SQLite's own locks on it (POSIX).
    if not isinstance(where, Path):
        yield
        return
    with open(os.open(f"{where}.opening", os.O_RDWR | os.O_CREAT, 0o600), "w") as lock:  # noqa: PTH123 (a descriptor)
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sqlite(path: Path) -> Engine:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    engine = create_engine(URL.create("sqlite", database=str(path)))  # not a string: a path may hold ? or %

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: Any) -> None:
        # The driver's own transaction control starts one only at the first write, so a read-then-write could fail
        # half-way; BEGIN IMMEDIATE below waits for the writer's place at once.
        connection.isolation_level = None
        for pragma in (f"busy_timeout={_BUSY_MS}", "journal_mode=WAL", "foreign_keys=ON", "synchronous=NORMAL"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _migrate(engine: Engine, where: str) -> None:
    table = schema.schema_version
    steps = migrations()
    with engine.begin() as connection:
        table.create(connection, checkfirst=True)
        version = connection.execute(select(table.c.version)).scalar()
        if version is None:
            connection.execute(insert(table).values(version=0))
            version = 0
        if version > max(steps):
            raise MachineFault(
                f"The store {where} was written by a newer Outrider",
                why=f"its schema is version {version}, this one knows {max(steps)}",
                remedy="Upgrade Outrider, or set OUTRIDER_HOME to another directory.",
            )
        for number, upgrade in steps.items():
            if number > version:
                upgrade(connection)
                connection.execute(table.update().values(version=number))
