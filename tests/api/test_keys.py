"""``/keys`` over the real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from outrider.api import keys, problems
from outrider.store.database import Database, open_database
from outrider.store.keys import Keys
from outrider.store.usage import Usage, Used


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_database(tmp_path / "store.db")
    yield opened
    opened.close()


@pytest.fixture
def client(database: Database) -> Iterator[TestClient]:
    app = FastAPI()
    problems.install(app)
    app.include_router(keys.router(Keys(database), Usage(database), lambda: None))
    with TestClient(app) as made:
        yield made


def test_limits_are_kept_and_usage_is_shown(client: TestClient, database: Database) -> None:
    limits = {"requests_per_minute": 5, "tokens_per_minute": 100, "budget_tokens": 1000}
    made = client.post("/keys", json={"name": "ci", "limits": limits}).json()
    assert made["limits"] == limits and made["secret"].startswith("or-")
    Usage(database).add({made["id"]: Used(2, 30, 4)})
    [listed] = client.get("/keys").json()["items"]
    assert listed["usage"] == {"requests": 2, "prompt_tokens": 30, "completion_tokens": 4}
    assert "secret" not in listed


@pytest.mark.parametrize(
    "body",
    [{"limits": {"budget_tokens": 0}}, {"limits": {"requests": 1}}, {"expires_at": 1}, {"scopes": []}],
)
def test_a_bad_key_is_refused_and_not_made(client: TestClient, body: dict[str, object]) -> None:
    assert client.post("/keys", json={"name": "ci", **body}).status_code == 422
    assert client.get("/keys").json() == {"items": []}
