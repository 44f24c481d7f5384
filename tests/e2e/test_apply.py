"""Endpoints kept as files, with the real engine: applied, unchanged, changed, compared, refused."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.outrider_process import MODEL, Outrider, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CHAT = f"model: {MODEL}\nname: chat\nflags: {{slots: 2}}\n"
SEARCH = f"model: {MODEL}\nname: search\ntask: embed\nflags: {{slots: 1}}\n"


def _remembered(outrider: Outrider) -> dict[str, Any]:
    """What is stored of endpoints, revisions and events, and every file of the revisions."""
    tables = ("endpoints", "revisions", "events")
    with closing(sqlite3.connect(f"file:{outrider.home.store}?mode=ro", uri=True)) as store:
        found: dict[str, Any] = {table: store.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    files = sorted(path for path in outrider.home.revisions.rglob("*") if path.is_file())
    return found | {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _actions(answer: Any) -> list[tuple[str, str]]:
    return [(row["name"], row["action"]) for row in answer["endpoints"]]


def test_files_are_applied_changed_and_compared(outrider: Outrider, tmp_path: Path) -> None:
    file = tmp_path / "endpoints.yaml"
    file.write_text(f"{CHAT}---\n{SEARCH}")
    words = ("-f", str(file))

    planned = outrider.json("endpoint", "apply", *words, "--dry-run")
    assert (planned["compared_with"], _actions(planned)) == ("nothing", [("chat", "created"), ("search", "created")])
    assert not outrider.home.root.exists()
    assert outrider.attempt("status").returncode == 6

    said = outrider.run("endpoint", "apply", *words)
    assert "outrider up" in said
    assert outrider.chat("chat", tokens=4).status_code == 200
    body = {"model": "search", "input": "the sea"}
    assert len(httpx.post(f"{outrider.url}/v1/embeddings", json=body).json()["data"][0]["embedding"]) == 576

    before = _remembered(outrider)
    again = outrider.json("endpoint", "apply", *words)
    assert _actions(again) == [("chat", "unchanged"), ("search", "unchanged")]
    outrider.run("endpoint", "diff", *words, "--exit-code")
    assert _remembered(outrider) == before

    file.write_text(f"{CHAT.replace('slots: 2', 'slots: 1')}---\n{SEARCH}")
    _compare_only(outrider, words)
    assert _remembered(outrider) == before

    changed = outrider.json("endpoint", "apply", *words)
    assert _actions(changed) == [("chat", "changed"), ("search", "unchanged")]
    assert [row["endpoint"]["revision"]["number"] for row in changed["endpoints"]] == [2, 1]
    assert [row["endpoint"]["state"] for row in changed["endpoints"]] == ["ready", "ready"]
    assert "slots=1," in outrider.run("endpoint", "source", "chat")
    assert outrider.chat("chat", tokens=4).headers["x-outrider-revision"].startswith("2-")
    assert outrider.json("endpoint", "diff", *words)["endpoints"][0]["source_diff"] == ""


def _compare_only(outrider: Outrider, words: tuple[str, ...]) -> None:
    """What diff and a dry run say of one flag."""
    shown = outrider.run("endpoint", "diff", *words, "--exit-code", code=1)
    for line in ("~ flags.slots", "2 → 1", "--- chat/1/serve.py", "-    slots=2,", "+    slots=1,"):
        assert line in shown
    assert "unchanged  search" in shown
    answer = outrider.json("endpoint", "apply", *words, "--dry-run")
    assert answer["endpoints"][0]["changes"] == [{"path": "flags.slots", "before": 2, "after": 1}]
    assert answer["endpoints"][0]["revision"] == 1


def test_nothing_is_changed_while_one_of_them_cannot_be(outrider: Outrider, tmp_path: Path) -> None:
    file = tmp_path / "endpoints.yaml"
    file.write_text(f"{CHAT}---\n{SEARCH}")
    words = ("endpoint", "apply", "-f", str(file))
    outrider.run(*words)
    source = outrider.run("endpoint", "source", "search")
    edited = tmp_path / "serve.py"
    edited.write_text(source.replace("slots=1,", "slots=2,"))
    outrider.run("deploy", str(edited))
    until(lambda: len(outrider.json("endpoint", "info", "search")["replicas"]) == 1)  # the old one is gone
    before = _remembered(outrider)

    file.write_text(f"{CHAT.replace('slots: 2', 'slots: 1')}---\n{SEARCH}")
    refused = outrider.attempt(*words)
    assert refused.returncode == 4
    assert f"{file}:5: search runs an edited serve.py" in refused.stderr
    assert _remembered(outrider) == before

    file.write_text(f"{CHAT}---\n{SEARCH.replace('slots: 1', 'slotz: 1')}")
    unknown = outrider.attempt(*words)
    assert unknown.returncode == 2
    assert f"{file}:8: " in unknown.stderr and "did you mean 'slots'" in unknown.stderr
    assert _remembered(outrider) == before

    file.write_text(f"{CHAT}---\n{SEARCH}")
    replaced = outrider.json(*words, "--replace-source")
    assert _actions(replaced) == [("chat", "unchanged"), ("search", "changed")]
    view = outrider.json("endpoint", "info", "search")
    assert (view["revision"]["number"], view["source_edited"], view["state"]) == (3, False, "ready")


def test_one_that_does_not_come_up_stops_no_other(outrider: Outrider, tmp_path: Path) -> None:
    file = tmp_path / "endpoints.yaml"
    slow = SEARCH.replace("name: search", "name: slow") + "resources: {startup_timeout: 1ms}\n"
    file.write_text(f"{CHAT}---\n{slow}")
    done = outrider.attempt("endpoint", "apply", "-f", str(file), "--json")
    assert done.returncode == 9, done.stderr
    error = json.loads(done.stdout)
    rows = {row["name"]: row for row in error["details"]["endpoints"]}
    assert rows["slow"]["error"]["code"] == error["code"] == "start_timeout"
    assert rows["chat"]["endpoint"]["state"] == "ready"


def test_the_api_says_what_a_spec_would_change(outrider: Outrider, tmp_path: Path) -> None:
    file = tmp_path / "chat.yaml"
    file.write_text(CHAT)
    outrider.run("endpoint", "apply", "-f", str(file))
    before = _remembered(outrider)
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(outrider.home.api_socket)), timeout=60) as api:
        path = "http://outrider/api/v1/endpoints/chat?dry_run=true"
        same = api.put(path, json={"model": MODEL, "flags": {"slots": 2}}).json()
        assert (same["action"], same["changes"], same["source_diff"]) == ("unchanged", [], "")
        other = api.put(path, json={"model": MODEL, "flags": {"slots": 3}}).json()
        assert (other["action"], other["revision"]) == ("changed", 1)
        assert other["changes"] == [{"path": "flags.slots", "before": 2, "after": 3}]
        assert {"path": "flags.slots", "before": 2, "after": 3} in other["plan_changes"]
        assert "+    slots=3," in other["source_diff"]
        assert other["plan"]["recipe"]
        stale = api.put(path, json={"model": MODEL}, headers={"If-Match": "0"})
        assert (stale.status_code, stale.json()["code"]) == (412, "generation_mismatch")
        exists = api.put(f"{path}&create=true", json={"model": MODEL})
        assert (exists.status_code, exists.json()["code"]) == (409, "endpoint_exists")
        new = api.put(path.replace("chat", "new"), json={"model": MODEL}).json()
        assert (new["action"], new["revision"], new["generation"]) == ("created", None, None)
    assert _remembered(outrider) == before
