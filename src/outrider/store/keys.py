"""API keys. Only their SHA-256 is stored; the secret is shown once."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, or_, select, update

from outrider.errors import KeyExists, KeyNotFound
from outrider.store.database import Database
from outrider.store.schema import keys


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key. ``endpoints`` None: all; ``hint``: its last four characters; times in UTC ms."""

    id: str
    name: str
    hash: str
    hint: str
    scopes: list[str]
    endpoints: list[str] | None
    limits: dict[str, Any]
    created_at: int
    expires_at: int | None
    revoked_at: int | None


class Keys:
    """The keys table. ``random`` gives so many random bytes (from the system's source unless told otherwise)."""

    def __init__(self, database: Database, *, random: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._database = database
        self._random = random

    def create(
        self,
        name: str,
        *,
        scopes: Sequence[str],
        endpoints: Sequence[str] | None,
        limits: dict[str, Any],
        expires_at: int | None,
        at: int,
    ) -> tuple[KeyRecord, str]:
        """Make a key; the record and the secret. Raises KeyExists for a live key of that name."""
        secret = f"or-{base64.urlsafe_b64encode(self._random(32)).rstrip(b'=').decode()}"
        record = KeyRecord(
            id=self._random(6).hex(),
            name=name,
            hash=hash_secret(secret),
            hint=secret[-4:],
            scopes=list(scopes),
            endpoints=None if endpoints is None else list(endpoints),
            limits=limits,
            created_at=at,
            expires_at=expires_at,
            revoked_at=None,
        )
        with self._database.begin() as connection:
            live = select(keys.c.id).where(keys.c.name == name, keys.c.revoked_at.is_(None))
            if connection.execute(live).first() is not None:
                raise KeyExists(f"There is a key {name!r} already", remedy="Choose another name, or revoke it first.")
            connection.execute(insert(keys).values({name: getattr(record, name) for name in record.__slots__}))
        return record, secret

    def list(self) -> list[KeyRecord]:
        """All, revoked ones too, oldest first."""
        with self._database.begin() as connection:
            rows = connection.execute(select(keys).order_by(keys.c.created_at, keys.c.id)).mappings()
            return [KeyRecord(**row) for row in rows]

    def find(self, secret: str, *, now: int) -> KeyRecord | None:
        """The live key of a secret, or None."""
        query = select(keys).where(keys.c.hash == hash_secret(secret), keys.c.revoked_at.is_(None))
        with self._database.begin() as connection:
            row = connection.execute(query).mappings().one_or_none()
        record = None if row is None else KeyRecord(**row)
        return record if record and (record.expires_at is None or record.expires_at > now) else None

    def revoke(self, name: str, *, at: int) -> KeyRecord:
        """Revoke a live key by id or name. Raises KeyNotFound."""
        match = (or_(keys.c.id == name, keys.c.name == name), keys.c.revoked_at.is_(None))
        with self._database.begin() as connection:
            row = connection.execute(select(keys).where(*match)).mappings().first()
            if row is None:
                raise KeyNotFound(f"No live key {name!r}", remedy="See them with: outrider key list")
            connection.execute(update(keys).where(keys.c.id == row["id"]).values(revoked_at=at))
            return KeyRecord(**{**row, "revoked_at": at})


def hash_secret(secret: str) -> str:
    """SHA-256 in hex: the secret has 256 bits of randomness, so no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()
