"""Who may use the REST API: the same user over the Unix socket, without a key; others with an admin key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from outrider.api.problems import answer
from outrider.errors import Forbidden, OutriderError, Unauthorized
from outrider.store.keys import Keys

_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_App = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


class KeyedAccess:
    """ASGI middleware for the TCP listener: every request needs a key with the scope ``admin``."""

    def __init__(self, app: _App, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: _Scope, receive: _Receive, send: _Send) -> None:
        """Let a request through, or answer 401 or 403."""
        error = await self._refusal(scope) if scope["type"] == "http" else None
        if error is None:
            await self._app(scope, receive, send)
            return
        await answer(error)(scope, receive, send)

    async def _refusal(self, scope: _Scope) -> OutriderError | None:
        secret = _secret(scope)
        if secret is None:
            return Unauthorized(
                "No key", remedy="Send `Authorization: Bearer KEY`; make one with: outrider key create NAME"
            )
        record = await asyncio.to_thread(self._keys.find, secret, now=int(time.time() * 1000))
        if record is None:
            return Unauthorized("Nobody knows this key", remedy="Make one with: outrider key create NAME --scope admin")
        if "admin" not in record.scopes:
            return Forbidden(f"Key {record.name!r} is not for administration", remedy="Use one with the scope admin.")
        return None


def _secret(scope: _Scope) -> str | None:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope.get("headers", [])}
    if "x-api-key" in headers:
        return str(headers["x-api-key"])
    kind, _, value = headers.get("authorization", "").partition(" ")
    return str(value).strip() if kind.lower() == "bearer" and value else None
