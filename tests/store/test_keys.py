from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from outrider.errors import KeyExists, KeyNotFound
from outrider.store.database import Database, open_database
from outrider.store.keys import KeyRecord, Keys


def _create(keys: Keys, name: str, *, expires_at: int | None = None) -> tuple[KeyRecord, str]:
    return keys.create(name, scopes=["inference"], endpoints=None, limits={}, expires_at=expires_at, at=1)


def test_the_secret_is_shown_once_and_only_its_hash_is_stored(tmp_path: Path) -> None:
    database = open_database(tmp_path / "store.db")
    record, secret = _create(Keys(database), "a")
    database.close()
    assert re.fullmatch(r"or-[A-Za-z0-9_-]{43}", secret)
    assert record.hash == hashlib.sha256(secret.encode()).hexdigest()
    assert record.hint == secret[-4:]
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert secret.encode() not in stored
    assert record.hash.encode() in stored


def test_bytes_come_from_the_given_source(database: Database) -> None:
    keys = Keys(database, random=lambda count: b"\xff" * count)
    record, secret = _create(keys, "a")
    assert (record.id, secret) == ("ff" * 6, "or-" + "_" * 42 + "8")


def test_a_key_is_found_until_it_expires_or_is_revoked(database: Database) -> None:
    keys = Keys(database)
    record, secret = _create(keys, "a", expires_at=100)
    assert keys.find(secret, now=99) == record
    assert keys.find(secret, now=100) is None
    assert keys.find("or-unknown", now=1) is None
    revoked = keys.revoke(record.id, at=50)
    assert revoked.revoked_at == 50
    assert keys.find(secret, now=60) is None
    assert keys.list() == [revoked]


def test_two_live_keys_of_one_name_are_refused(database: Database) -> None:
    keys = Keys(database)
    _create(keys, "a")
    with pytest.raises(KeyExists, match="'a' already"):
        _create(keys, "a")
    keys.revoke("a", at=2)
    _create(keys, "a")
    assert [record.revoked_at for record in keys.list()].count(None) == 1


def test_revoking_an_absent_one_is_not_found(database: Database) -> None:
    keys = Keys(database)
    _create(keys, "a")
    keys.revoke("a", at=2)
    with pytest.raises(KeyNotFound):
        keys.revoke("a", at=3)
