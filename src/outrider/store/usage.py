"""What each key has used in its whole life: sums only, so that they are exact after any number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import insert, select, update

from outrider.store.database import Database
from outrider.store.schema import key_usage


class Used(NamedTuple):
    """What was used: requests that reached a replica, and tokens as its engine counted them."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def tokens(self) -> int:
        """Of prompts and answers together."""
        return self.prompt_tokens + self.completion_tokens

    def plus(self, other: Used) -> Used:
        """Both together."""
        return Used(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


class Usage:
    """The table of usage by key id."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, used: Mapping[str, Used]) -> None:
        """Add to the sums of some keys: to all of them, or, where it fails, to none."""
        with self._database.begin() as connection:
            for key, more in used.items():
                sums = {column: key_usage.c[column] + count for column, count in more._asdict().items()}
                found = connection.execute(update(key_usage).where(key_usage.c.key == key).values(sums))
                if not found.rowcount:
                    connection.execute(insert(key_usage).values(key=key, **more._asdict()))

    def all(self) -> dict[str, Used]:
        """The sums of every key that was ever used."""
        with self._database.begin() as connection:
            return {row.key: Used(*row[1:]) for row in connection.execute(select(key_usage))}
