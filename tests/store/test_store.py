"""The store on a real SQLite file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import MetaData, create_engine

from outrider.errors import EndpointExists, EndpointNotFound, GenerationMismatch, KeyExists, KeyNotFound, MachineFault
from outrider.store import schema
from outrider.store.database import Database, open_database
from outrider.store.endpoints import Endpoints
from outrider.store.events import Events
from outrider.store.keys import Keys
from outrider.store.revisions import Revisions


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(tmp_path / "store.db")
    yield opened
    opened.close()


def _append(database: Database, name: str = "a") -> int:
    return Revisions(database).append(name, digest="d", source="s", plan=None, declaration={}, origin="planned", at=1)


def test_migrations_give_the_schema(tmp_path: Path, database: Database) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'store.db'}")
    found = MetaData()
    found.reflect(engine)
    engine.dispose()
    tables = {name: {c.name for c in table.columns} for name, table in found.tables.items() if "sqlite" not in name}
    assert tables == {name: {c.name for c in table.columns} for name, table in schema.metadata.tables.items()}


def test_the_file_is_private(tmp_path: Path, database: Database) -> None:
    assert (tmp_path / "store.db").stat().st_mode & 0o777 == 0o600


def test_endpoints(database: Database) -> None:
    endpoints = Endpoints(database)
    endpoints.insert("a", {"model": "m"}, at=1)
    with pytest.raises(EndpointExists):
        endpoints.insert("a", None, at=2)
    endpoints.update("a", at=3, expected=1, desired="stopped")
    with pytest.raises(GenerationMismatch):
        endpoints.update("a", at=4, expected=1, desired="running")
    record = endpoints.get("a")
    assert (record.desired, record.generation, record.updated_at) == ("stopped", 2, 3)
    endpoints.delete("a")
    with pytest.raises(EndpointNotFound):
        endpoints.get("a")


def test_revisions_count_from_one_and_go_with_their_endpoint(database: Database) -> None:
    Endpoints(database).insert("a", None, at=1)
    assert [_append(database), _append(database)] == [1, 2]
    Endpoints(database).delete("a")
    assert Revisions(database).list("a") == []


def test_nothing_of_a_failed_transaction_stays(database: Database) -> None:
    with pytest.raises(RuntimeError), database.begin() as connection:
        Endpoints(database).insert("a", None, at=1, connection=connection)
        raise RuntimeError
    assert Endpoints(database).list() == []


def test_events_are_bounded_per_endpoint(database: Database) -> None:
    events = Events(database, kept=3)
    for at in range(5):
        for name in ("a", "b"):
            events.append(
                at=at, endpoint=name, replica=None, revision=None, kind="k", reason="", message=str(at), data={}
            )
    assert [event.message for event in events.list("a")] == ["2", "3", "4"]
    assert [event.at for event in events.list("b", limit=2)] == [3, 4]


def test_keys(database: Database) -> None:
    keys = Keys(database)
    record, secret = keys.create("ci", scopes=["inference"], endpoints=None, limits={}, expires_at=100, at=1)
    assert secret not in str(keys.list())
    assert keys.find(secret, now=99) == record
    assert keys.find(secret, now=100) is None
    with pytest.raises(KeyExists):
        keys.create("ci", scopes=["admin"], endpoints=None, limits={}, expires_at=None, at=2)
    keys.revoke("ci", at=3)
    assert keys.find(secret, now=4) is None
    with pytest.raises(KeyNotFound):
        keys.revoke("ci", at=5)


def test_threads_write_at_once(database: Database) -> None:
    Endpoints(database).insert("a", None, at=1)
    threads = [threading.Thread(target=lambda: [_append(database) for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record.number for record in Revisions(database).list("a")] == list(range(1, 41))


def test_what_is_no_database_is_said(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_text("no database at all, but long enough to look at" * 50)
    with pytest.raises(MachineFault, match="Cannot open the store"):
        open_database(tmp_path / "store.db")


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    open_database(tmp_path / "store.db").close()
    engine = create_engine(f"sqlite:///{tmp_path / 'store.db'}")
    with engine.begin() as connection:
        connection.execute(schema.schema_version.update().values(version=999))
    engine.dispose()
    with pytest.raises(MachineFault, match="newer Outrider"):
        open_database(tmp_path / "store.db")
