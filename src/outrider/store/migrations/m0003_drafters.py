"""Version 3: drafters, and which of them drafts for which target."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Connection, ForeignKey, Integer, MetaData, String, Table


def upgrade(connection: Connection) -> None:
    """Create the tables. Spelt out here, not taken from the schema, which goes on changing."""
    metadata = MetaData()
    Table(
        "drafters",
        metadata,
        Column("name", String(80), primary_key=True),
        Column("sha256", String(64), nullable=False),
        Column("bytes", BigInteger, nullable=False),
        Column("method", String(16), nullable=False),
        Column("kind", String(16), nullable=False),
        Column("block_size", Integer),
        Column("parent", String(80)),
        Column("target", JSON, nullable=False),
        Column("data", JSON(none_as_null=True)),
        Column("hyperparameters", JSON, nullable=False),
        Column("modes", JSON(none_as_null=True)),
        Column("languages", JSON(none_as_null=True)),
        Column("max_context", Integer),
        Column("evaluation", JSON, nullable=False),
        Column("created_at", BigInteger, nullable=False),
    )
    Table(
        "drafter_bindings",
        metadata,
        Column("target", String(64), primary_key=True),
        Column("drafter", String(80), ForeignKey("drafters.name", ondelete="CASCADE"), nullable=False),
        Column("bound_at", BigInteger, nullable=False),
    )
    metadata.create_all(connection)
