"""How much a request may send: its body is held in memory whole."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from outrider.api.problems import answer
from outrider.errors import TooLarge

BODY_LIMIT = 4 * 1024 * 1024
"""Bytes of a body. 4 MiB: a ``serve.py`` has some kilobytes, one with its patches written into it some hundred."""

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]
_App = Callable[[_Message, _Receive, _Send], Awaitable[None]]


class LimitedBody:
    """ASGI middleware: a larger body is refused by its announced length, or as soon as more than that has come."""

    def __init__(self, app: _App, limit: int = BODY_LIMIT) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        """Let a request through, or answer 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if int(announced) > self._limit:
            await answer(self._refusal())(scope, receive, send)
            return
        seen = 0

        async def counted() -> _Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._limit:
                raise self._refusal()
            return message

        await self._app(scope, counted, send)

    def _refusal(self) -> TooLarge:
        return TooLarge("The body is too large", why=f"more than {self._limit:,} bytes")
