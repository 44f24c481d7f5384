"""Who may call what. Keys are known by the SHA-256 of their secret only."""

from __future__ import annotations

import hashlib
import hmac

from outrider.errors import Forbidden, Unauthorized
from outrider.gateway.table import Endpoint, Key, Table

_BEARER = b"bearer "


def secret(authorization: bytes | None, x_api_key: bytes | None) -> bytes | None:
    """The secret a request carries: ``Authorization: Bearer`` first, then ``x-api-key`` (Anthropic's clients)."""
    if authorization is not None and authorization[:7].lower() == _BEARER:
        return authorization[7:].strip()
    return x_api_key


def find(table: Table, presented: bytes | None, now: int) -> Key | None:
    """The live key of a secret, or None.

    Looked up by digest, which tells a measurer of time nothing about the secret, then compared in constant time.

    Args:
        table: with its keys by digest.
        presented: the secret, or None.
        now: UTC ms, for expiry.
    """
    if not presented:
        return None
    digest = hashlib.sha256(presented).hexdigest()
    key = table.keys.get(digest)
    if key is None or not hmac.compare_digest(key.hash, digest):
        return None
    return None if key.expires_at is not None and key.expires_at <= now else key


def check(table: Table, endpoint: Endpoint, presented: bytes | None, now: int) -> Key | None:
    """Let a request to an endpoint pass, or say why not. Returns the key it came with, where one is known.

    A key is needed where the table requires keys and the endpoint is not unauthenticated. Where none is needed,
    whatever a client sends is let through: OpenAI's clients cannot be made to send nothing.

    Raises:
        Unauthorized: no key, an unknown or an expired one.
        Forbidden: the key is not for inference, or not for this endpoint.
    """
    key = find(table, presented, now)
    if not table.require_keys or endpoint.unauthenticated:
        return key
    if key is None:
        raise _unauthorized(presented)
    if "inference" not in key.scopes:
        raise Forbidden(f"Key {key.name!r} is not for inference", remedy="Use a key with the scope 'inference'.")
    if key.endpoints is not None and endpoint.name not in key.endpoints:
        raise Forbidden(
            f"Key {key.name!r} is not for endpoint {endpoint.name!r}",
            remedy="Use a key that names this endpoint: outrider key create.",
        )
    return key


def visible(table: Table, presented: bytes | None, now: int) -> list[Endpoint]:
    """The endpoints that a caller may list.

    Raises:
        Unauthorized: keys are required, none was valid, and no endpoint is open to all.
    """
    endpoints = list(table.endpoints.values())
    if not table.require_keys:
        return endpoints
    key = find(table, presented, now)
    if key is not None and "inference" in key.scopes:
        return [one for one in endpoints if one.unauthenticated or key.endpoints is None or one.name in key.endpoints]
    open_to_all = [one for one in endpoints if one.unauthenticated]
    if not open_to_all:
        raise _unauthorized(presented)
    return open_to_all


def check_scraper(table: Table, presented: bytes | None, now: int, *, near: bool) -> None:
    """Let a request for the metrics pass, or say why not: they name every endpoint and say how much it is used.

    Open where no keys are required, and to this machine, where a scraper mostly runs; else a key with the scope
    ``admin`` is needed.

    Args:
        table: with its keys.
        presented: the secret it came with, or None.
        now: UTC ms.
        near: whether it came from this machine, and not through a proxy on it.

    Raises:
        Unauthorized: no key, an unknown or an expired one.
        Forbidden: the key is not for administration.
    """
    if near or not table.require_keys:
        return
    key = find(table, presented, now)
    if key is None:
        raise _unauthorized(presented)
    if "admin" not in key.scopes:
        raise Forbidden(f"Key {key.name!r} is not for metrics", remedy="Use a key with the scope 'admin'.")


def _unauthorized(presented: bytes | None) -> Unauthorized:
    if not presented:
        return Unauthorized("No API key", remedy="Send one as 'Authorization: Bearer KEY' or 'x-api-key: KEY'.")
    return Unauthorized("Wrong or expired API key", remedy="Make a new one: outrider key create NAME.")
