"""``/keys``: who may use the endpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from outrider.errors import InvalidInput
from outrider.store.keys import KeyRecord, Keys
from outrider.store.usage import Usage, Used


class Limits(BaseModel):
    """What a key may use: requests and tokens a minute, and tokens in its whole life. None: no limit."""

    model_config = ConfigDict(extra="forbid")

    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    budget_tokens: int | None = Field(default=None, ge=1)


class NewKey(BaseModel):
    """A key to make. ``endpoints`` None: all; ``expires_at``: UTC ms."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]+$")
    scopes: list[Literal["inference", "admin"]] = Field(default=["inference"], min_length=1)
    endpoints: list[str] | None = None
    limits: Limits = Field(default_factory=Limits)
    expires_at: int | None = None


def router(keys: Keys, usage: Usage, poke: Callable[[], None]) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["keys"])

    @routes.get("/keys")
    def list_keys() -> dict[str, Any]:
        """All keys and what each has used; never a secret."""
        used = usage.all()
        return {"items": [_view(record, used.get(record.id, Used())) for record in keys.list()]}

    @routes.post("/keys", status_code=201)
    def create_key(new: NewKey) -> dict[str, Any]:
        """Make a key. The secret is in this answer and nowhere else."""
        if new.expires_at is not None and new.expires_at <= _now():
            raise InvalidInput(
                f"Key {new.name!r} would be expired from the start", remedy="Give a moment that is to come."
            )
        record, secret = keys.create(
            new.name,
            scopes=new.scopes,
            endpoints=new.endpoints,
            limits=new.limits.model_dump(exclude_none=True),
            expires_at=new.expires_at,
            at=_now(),
        )
        poke()
        return _view(record, Used()) | {"secret": secret}

    @routes.delete("/keys/{name}")
    def revoke_key(name: str) -> dict[str, Any]:
        """Revoke a key by id or name; it stops with the gateway's next table."""
        record = keys.revoke(name, at=_now())
        poke()
        return _view(record, usage.all().get(record.id, Used()))

    return routes


def _view(record: KeyRecord, used: Used) -> dict[str, Any]:
    fields = ("id", "name", "hint", "scopes", "endpoints", "limits", "created_at", "expires_at", "revoked_at")
    return {field: getattr(record, field) for field in fields} | {"usage": used._asdict()}


def _now() -> int:
    return int(time.time() * 1000)
