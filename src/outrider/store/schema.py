"""The tables. Times are UTC milliseconds; JSON columns hold plain data."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Boolean, Column, ForeignKey, Index, Integer, MetaData, String, Table, Text

metadata = MetaData()

schema_version = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

endpoints = Table(
    "endpoints",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("spec", JSON(none_as_null=True)),
    Column("desired", String(16), nullable=False),
    Column("revision", Integer),
    Column("generation", Integer, nullable=False),
    Column("source_edited", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
)

revisions = Table(
    "revisions",
    metadata,
    Column("endpoint", String(40), ForeignKey("endpoints.name", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("digest", String(64), nullable=False),
    Column("source", Text, nullable=False),
    Column("plan", JSON(none_as_null=True)),
    Column("declaration", JSON, nullable=False),
    Column("origin", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("reason", Text),
    Column("created_at", BigInteger, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("endpoint", String(40)),
    Column("replica", String(16)),
    Column("revision", Integer),
    Column("kind", String(40), nullable=False),
    Column("reason", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("data", JSON, nullable=False),
    Index("events_by_endpoint", "endpoint", "id"),
    sqlite_autoincrement=True,
)

keys = Table(
    "keys",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", String(80), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("hint", String(8), nullable=False),
    Column("scopes", JSON, nullable=False),
    Column("endpoints", JSON(none_as_null=True)),
    Column("limits", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
)

key_usage = Table(
    "key_usage",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("requests", BigInteger, nullable=False),
    Column("prompt_tokens", BigInteger, nullable=False),
    Column("completion_tokens", BigInteger, nullable=False),
)

drafters = Table(
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

drafter_bindings = Table(
    "drafter_bindings",
    metadata,
    Column("target", String(64), primary_key=True),
    Column("drafter", String(80), ForeignKey("drafters.name", ondelete="CASCADE"), nullable=False),
    Column("bound_at", BigInteger, nullable=False),
)
