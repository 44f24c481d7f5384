"""Answers the gateway gives itself, and errors in the shape of OpenAI's API.

Clients switch on that shape: ``{"error": {"message", "type", "param", "code"}}``.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any, NamedTuple

from outrider.errors import OutriderError

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    408: "timeout_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    431: "invalid_request_error",
    426: "invalid_request_error",
    429: "rate_limit_error",
    503: "service_unavailable",
    504: "timeout_error",
}

_ANTHROPIC = {
    "service_unavailable": "overloaded_error",
    **{
        name: name
        for name in (
            "invalid_request_error",
            "authentication_error",
            "permission_error",
            "rate_limit_error",
            "timeout_error",
        )
    },
}
"""Types of errors by their names in Anthropic's API; what is not here is its ``api_error``."""

RETRY_AFTER = 5
"""Seconds a client is asked to wait after a 503: about what a small replica needs to come up."""


class Response(NamedTuple):
    """A whole answer. ``headers`` are further header lines; length and connection are added on the way out."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()

    def encode(self, *, keep_alive: bool, head_only: bool = False) -> bytes:
        """The bytes to send; ``head_only`` for HEAD."""
        reason = HTTPStatus(self.status).phrase
        lines = [f"HTTP/1.1 {self.status} {reason}"]
        if self.status != HTTPStatus.NO_CONTENT:
            lines += [f"content-type: {self.content_type}", f"content-length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        lines.append(f"connection: {'keep-alive' if keep_alive else 'close'}")
        head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
        return head if head_only else head + self.body


def ok(data: Any) -> Response:
    """200 with JSON."""
    return Response(200, json.dumps(data, separators=(",", ":")).encode())


def error_body(status: int, message: str, *, code: str, param: str | None = None) -> dict[str, Any]:
    """The object OpenAI's clients read: also the payload of an error event in a stream."""
    kind = _TYPES.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def error(
    status: int, message: str, *, code: str, param: str | None = None, headers: tuple[tuple[str, str], ...] = ()
) -> Response:
    """An error answer. A 503 carries ``Retry-After``, a 401 ``WWW-Authenticate``."""
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers = (*headers, ("retry-after", str(RETRY_AFTER)))
    if status == HTTPStatus.UNAUTHORIZED:
        headers = (*headers, ("www-authenticate", "Bearer"))
    body = json.dumps(error_body(status, message, code=code, param=param)).encode()
    return Response(status, body, headers=headers)


def from_error(problem: OutriderError, *, status: int | None = None) -> Response:
    """Any of Outrider's errors, with all three parts of its message."""
    return error(
        problem.status if status is None else status,
        str(problem),
        code=problem.code,
        param=problem.details.get("param"),
        headers=tuple(problem.details.get("headers", ())),
    )


def error_event(error: dict[str, Any], target: str) -> bytes:
    """The last event of a stream that cannot go on: clients raise on it and take no half answer for whole.

    Args:
        error: the object under ``error`` in an :func:`error_body`.
        target: path of the request, which says in whose form: Anthropic's clients and OpenAI's for the Responses API
            look at the name of an event, the other ones of OpenAI at the field ``error``.
    """
    if target == "/v1/messages":
        data = {
            "type": "error",
            "error": {"type": _ANTHROPIC.get(error["type"], "api_error"), "message": error["message"]},
        }
        name = b"event: error\n"
    else:
        named = target == "/v1/responses"
        data = {"type": "error", "error": error} if named else {"error": error}
        name = b"event: error\n" if named else b""
    return b"%bdata: %b\n\n" % (name, json.dumps(data).encode())
