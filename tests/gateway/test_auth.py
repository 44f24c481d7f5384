"""Who may call what."""

from __future__ import annotations

import pytest

from outrider.errors import Forbidden, Unauthorized
from outrider.gateway import auth
from outrider.gateway import table as tables
from tests.gateway.client import key, table


@pytest.mark.parametrize(
    ("authorization", "x_api_key", "secret"),
    [
        (b"Bearer abc", None, b"abc"),
        (b"bearer  abc ", b"other", b"abc"),
        (b"Basic abc", b"other", b"other"),
        (None, b"other", b"other"),
        (None, None, None),
    ],
)
def test_secret(authorization: bytes | None, x_api_key: bytes | None, secret: bytes | None) -> None:
    assert auth.secret(authorization, x_api_key) == secret


def test_expiry_is_exact_to_the_millisecond() -> None:
    parsed = tables.parse(table(keys=[key("a", expires_at=1000)]))
    assert auth.find(parsed, b"a", 999) is not None
    assert auth.find(parsed, b"a", 1000) is None


def test_the_hash_itself_opens_nothing() -> None:
    parsed = tables.parse(table(keys=[key("a")]))
    [digest] = parsed.keys
    assert auth.find(parsed, digest.encode(), 0) is None
    assert auth.find(parsed, b"", 0) is None


def test_rules() -> None:
    keys = [key("a"), key("admin", scopes=["admin"]), key("other", endpoints=["other"])]
    parsed = tables.parse(table(keys=keys))
    endpoint = parsed.endpoints["tiny"]
    found = auth.check(parsed, endpoint, b"a", 0)
    assert found is not None and found.id == "key-a"
    for secret in (b"wrong", b"", None):
        with pytest.raises(Unauthorized):
            auth.check(parsed, endpoint, secret, 0)
    for secret in (b"admin", b"other"):
        with pytest.raises(Forbidden):
            auth.check(parsed, endpoint, secret, 0)
    with pytest.raises(Unauthorized):
        auth.visible(parsed, b"admin", 0)


def test_no_keys_required() -> None:
    parsed = tables.parse({**table(keys=[key("a")]), "require_keys": False})
    endpoint = parsed.endpoints["tiny"]
    assert auth.check(parsed, endpoint, b"anything", 0) is None
    found = auth.check(parsed, endpoint, b"a", 0)
    assert found is not None
    assert auth.visible(parsed, None, 0) == [endpoint]
