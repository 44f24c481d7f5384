"""``/keys``: who may use the endpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from outrider.errors import InvalidInput, InvalidName
from outrider.spec.names import check_name
from outrider.store.database import LARGEST
from outrider.store.keys import KeyRecord, Keys


def _endpoint_name(value: str) -> str:
    try:
        return check_name(value)
    except InvalidName as error:
        raise ValueError(f"{error.what}; {error.remedy}") from error


EndpointName = Annotated[str, AfterValidator(_endpoint_name)]


class Limits(BaseModel):
    """Per minute; None: no limit."""

    model_config = ConfigDict(extra="forbid")

    requests_per_minute: int | None = Field(default=None, ge=1, le=LARGEST)
    tokens_per_minute: int | None = Field(default=None, ge=1, le=LARGEST)


class NewKey(BaseModel):
    """A key to make. ``endpoints`` None: all; ``expires_at``: UTC ms."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]+$")
    scopes: list[Literal["inference", "admin"]] = Field(default=["inference"], min_length=1)
    endpoints: list[EndpointName] | None = None
    limits: Limits = Field(default_factory=Limits)
    expires_at: int | None = Field(default=None, ge=0, le=LARGEST)


def router(keys: Keys, poke: Callable[[], None]) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["keys"])

    @routes.get("/keys")
    def list_keys() -> dict[str, Any]:
        """All keys; never a secret."""
        return {"items": [_view(record) for record in keys.list()]}

    @routes.post("/keys", status_code=201)
    def create_key(new: NewKey) -> dict[str, Any]:
        """Make a key. The secret is in this answer and nowhere else."""
        now = _now()
        if new.expires_at is not None and new.expires_at <= now:
            raise InvalidInput(
                f"Key {new.name!r} would have expired already",
                why=f"expires_at is {new.expires_at}, it is {now}",
                remedy="Give UTC milliseconds in the future.",
            )
        record, secret = keys.create(
            new.name,
            scopes=new.scopes,
            endpoints=new.endpoints,
            limits=new.limits.model_dump(exclude_none=True),
            expires_at=new.expires_at,
            at=now,
        )
        poke()
        return _view(record) | {"secret": secret}

    @routes.delete("/keys/{name}")
    def revoke_key(name: str) -> dict[str, Any]:
        """Revoke a key by id or name; it stops with the gateway's next table."""
        record = keys.revoke(name, at=_now())
        poke()
        return _view(record)

    return routes


def _view(record: KeyRecord) -> dict[str, Any]:
    fields = ("id", "name", "hint", "scopes", "endpoints", "limits", "created_at", "expires_at", "revoked_at")
    return {field: getattr(record, field) for field in fields}


def _now() -> int:
    return int(time.time() * 1000)
