"""The database: made, opened again, migrated step by step, refused when it is not ours."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.engine import Engine

from outrider.errors import MachineFault, PermissionRefused
from outrider.store import schema
from outrider.store.database import open_database
from outrider.store.endpoints import Endpoints
from outrider.store.events import Events
from outrider.store.migrations import migrations


def _described(engine: Engine) -> dict[str, object]:
    """Tables, columns, keys and indexes as the database itself tells them."""
    look = inspect(engine)
    return {
        table: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in look.get_columns(table)],
            look.get_pk_constraint(table)["constrained_columns"],
            [(k["constrained_columns"], k["referred_table"], k["options"]) for k in look.get_foreign_keys(table)],
            sorted((i["name"] or "", i["column_names"]) for i in look.get_indexes(table)),
            [u["column_names"] for u in look.get_unique_constraints(table)],
        )
        for table in sorted(look.get_table_names())
        if table != "schema_version"
    }


def test_migrations_one_by_one_end_at_the_schema() -> None:
    steps = migrations()
    assert list(steps) == list(range(1, len(steps) + 1))
    migrated, made = create_engine("sqlite://"), create_engine("sqlite://")
    for upgrade in steps.values():
        with migrated.begin() as connection:
            upgrade(connection)
    schema.metadata.create_all(made)
    assert _described(migrated) == _described(made)
    names = {"endpoints", "revisions", "events", "keys", "key_usage", "drafters", "drafter_bindings"}
    assert set(_described(made)) == names
    migrated.dispose()
    made.dispose()


def test_opening_makes_a_private_file_in_wal_mode(tmp_path: Path) -> None:
    path = tmp_path / "store?100%#.db"  # no character of a path may be read as part of a URL
    database = open_database(path)
    assert database.version == max(migrations())
    with database.begin() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA foreign_keys")).scalar() == 1
        assert int(connection.execute(text("PRAGMA busy_timeout")).scalar_one()) >= 1000
    assert path.stat().st_mode & 0o777 == 0o600
    assert all(file.stat().st_mode & 0o077 == 0 for file in tmp_path.iterdir())
    database.close()


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    first = open_database(path)
    Endpoints(first).insert("a", {"model": "m"}, at=5)
    first.close()
    second = open_database(path)
    record = Endpoints(second).get("a")
    assert (record.spec, record.created_at, record.generation) == ({"model": "m"}, 5, 1)
    second.close()


def test_a_newer_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_database(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schema_version SET version = 999")
    connection.close()
    with pytest.raises(MachineFault, match="newer Outrider") as caught:
        open_database(path)
    assert "999" in str(caught.value.why)
    assert caught.value.remedy
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT version FROM schema_version").fetchone() == (999,)
    connection.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(MachineFault, match="Cannot open the store"):
        open_database(path)
    assert path.read_bytes().startswith(b"this is no database")


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PermissionRefused, match="Cannot open the store"):
        open_database(tmp_path / "absent" / "store.db")


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    database = open_database(tmp_path / "store.db")
    endpoints = Endpoints(database)
    with pytest.raises(RuntimeError), database.begin() as connection:
        endpoints.insert("a", None, at=1, connection=connection)
        raise RuntimeError
    assert endpoints.list() == []
    database.close()


def test_many_threads_write_and_read_at_once(tmp_path: Path) -> None:
    database = open_database(tmp_path / "store.db")
    endpoints, events = Endpoints(database), Events(database)
    endpoints.insert("a", None, at=0)
    go, failures = threading.Barrier(8), []

    def work(number: int) -> None:
        try:
            go.wait()
            for i in range(20):
                endpoints.update("a", at=i)
                events.append(
                    at=i, endpoint="a", replica=str(number), revision=None, kind="k", reason="", message="", data={}
                )
                endpoints.list()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert endpoints.get("a").generation == 1 + 8 * 20
    assert len(events.list("a", limit=1000)) == 8 * 20
    database.close()


def test_two_processes_may_open_a_new_store_at_once(tmp_path: Path) -> None:
    go, failures = threading.Barrier(4), []

    def work() -> None:
        try:
            go.wait()
            open_database(tmp_path / "store.db").close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
