from __future__ import annotations

import json
from typing import Any

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
}


def test_the_secret_is_on_a_line_of_its_own(outrider: Run, api: Api, controller: Standin) -> None:
    api.answers["POST /keys"] = lambda asked: _KEY | {"secret": "or-secret"}
    done = outrider("key", "create", "ci", "--scope", "admin", "--endpoint", "small")
    assert done.out == "or-secret\n"
    assert "shown once" in done.err
    assert controller.asked[-1].body == {"name": "ci", "scopes": ["admin"], "endpoints": ["small"]}
    assert json.loads(outrider("key", "create", "ci", "--json").out)["secret"] == "or-secret"


def test_the_listing_and_revoking(outrider: Run, api: Api, controller: Standin) -> None:
    assert outrider("key", "list").out == "no keys\n"
    api.keys = [_KEY]
    assert "…wxyz" in outrider("key", "list").out
    assert json.loads(outrider("key", "list", "--json").out) == [_KEY]
    api.answers["DELETE /keys/ci"] = lambda asked: _KEY
    assert outrider("key", "revoke", "ci").out == "ci is revoked\n"
