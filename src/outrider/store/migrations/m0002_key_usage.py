"""Version 2: what each key has used."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Connection, MetaData, String, Table


def upgrade(connection: Connection) -> None:
    """Create the table."""
    metadata = MetaData()
    Table(
        "key_usage",
        metadata,
        Column("key", String(32), primary_key=True),
        Column("requests", BigInteger, nullable=False),
        Column("prompt_tokens", BigInteger, nullable=False),
        Column("completion_tokens", BigInteger, nullable=False),
    )
    metadata.create_all(connection)
