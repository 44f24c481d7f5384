from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from outrider.cli.expiry import expiry
from outrider.errors import UsageError
from tests.cli.api import Api
from tests.cli.conftest import Run
from tests.client.standin import Standin

_KEY: dict[str, Any] = {
    "id": "ab12",
    "name": "ci",
    "hint": "wxyz",
    "scopes": ["inference"],
    "endpoints": None,
    "limits": {},
    "created_at": 1_764_000_000_000,
    "expires_at": None,
    "revoked_at": None,
    "usage": {"requests": 1200, "prompt_tokens": 30_000, "completion_tokens": 4_567},
}


def test_the_secret_is_on_a_line_of_its_own(outrider: Run, api: Api, controller: Standin) -> None:
    api.answers["POST /keys"] = lambda asked: _KEY | {"secret": "or-secret"}
    done = outrider("key", "create", "ci", "--scope", "admin", "--endpoint", "small")
    assert done.out.splitlines()[0] == "or-secret"
    assert controller.asked[-1].body == {"name": "ci", "scopes": ["admin"], "endpoints": ["small"]}
    assert json.loads(outrider("key", "create", "ci", "--json").out)["secret"] == "or-secret"


def test_the_listing_and_revoking(outrider: Run, api: Api, controller: Standin) -> None:
    assert outrider("key", "list").out == "no keys\n"
    api.keys = [_KEY]
    assert "…wxyz" in outrider("key", "list").out
    assert json.loads(outrider("key", "list", "--json").out) == [_KEY]
    api.answers["DELETE /keys/ci"] = lambda asked: _KEY
    assert outrider("key", "revoke", "ci").out == "ci is revoked\n"


def test_limits_and_expiry_are_asked_for(outrider: Run, api: Api, controller: Standin) -> None:
    api.answers["POST /keys"] = lambda asked: _KEY | {"secret": "or-secret"}
    words = ("--requests-per-minute", "60", "--tokens-per-minute", "9000", "--budget-tokens", "1000000")
    assert outrider("key", "create", "ci", *words, "--expires", "2999-01-31").code == 0
    body = controller.asked[-1].body
    assert body["limits"] == {"requests_per_minute": 60, "tokens_per_minute": 9000, "budget_tokens": 1_000_000}
    assert body["expires_at"] == datetime(2999, 1, 31, tzinfo=UTC).timestamp() * 1000


def test_the_listing_shows_limits_and_usage(outrider: Run, api: Api, controller: Standin) -> None:
    api.keys = [_KEY | {"limits": {"requests_per_minute": 60, "budget_tokens": 1_000_000}}]
    line = outrider("key", "list").out.splitlines()[1]
    assert "60 requests/min, 1,000,000 tokens" in line
    assert "1,200" in line and "34,567" in line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", datetime(2027, 1, 31, 12, tzinfo=UTC)),
        ("12h", datetime(2027, 1, 2, 0, tzinfo=UTC)),
        ("1w", datetime(2027, 1, 8, 12, tzinfo=UTC)),
        ("2027-03-01", datetime(2027, 3, 1, tzinfo=UTC)),
        ("2027-03-01T10:00+02:00", datetime(2027, 3, 1, 8, tzinfo=UTC)),
    ],
)
def test_a_moment_to_expire_at(text: str, expected: datetime) -> None:
    assert expiry(text, datetime(2027, 1, 1, 12, tzinfo=UTC)) == expected.timestamp() * 1000


@pytest.mark.parametrize("text", ["soon", "2026-12-31", "0d", "-3d", "999999w", ""])
def test_no_moment_to_expire_at(text: str) -> None:
    with pytest.raises(UsageError):
        expiry(text, datetime(2027, 1, 1, 12, tzinfo=UTC))
