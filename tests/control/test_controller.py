"""The control loop on a real store. The placement is a stand-in: what must be controlled is when replicas die."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.app.server import Stage
from outrider.app.state import ReplicaState
from outrider.control import events
from outrider.control.controller import Controller
from outrider.placement.base import Log, Observation, Replica, ReplicaSpec
from outrider.spec.home import Home
from outrider.store.database import Database, open_database
from outrider.store.endpoints import Endpoints
from outrider.store.events import Events
from outrider.store.keys import Keys
from outrider.store.revisions import Revisions
from outrider.store.usage import Usage, Used
from tests.client.standin import Answer, Asked, serving

DECLARATION: dict[str, Any] = {"server": {"min_replicas": 1, "exit_grace_period": 0}, "engine": {"name": "x"}}


class Stand:
    """Replicas that are what a test says."""

    def __init__(self) -> None:
        self.seen: dict[str, Observation] = {}
        self.removed: list[str] = []

    def start(self, spec: ReplicaSpec) -> Replica:
        self.seen[spec.id] = Observation(True, None, None)
        return Replica(spec, 1, 1)

    def observe(self, replica: Replica) -> Observation:
        return self.seen[replica.spec.id]

    def drain(self, replica: Replica) -> None:
        self.seen[replica.spec.id] = Observation(False, None, {"code": 0})

    def kill(self, replica: Replica) -> None:
        self.drain(replica)

    def remove(self, replica: Replica) -> None:
        self.removed.append(replica.spec.id)

    def adopt(self) -> list[Replica]:
        return []

    def log(self, replica_id: str, lines: int) -> list[str] | None:
        return None

    def follow(self, replica_id: str, lines: int) -> Log | None:
        return None

    def ready(self) -> None:
        for name in self.seen:
            state = ReplicaState(Stage.READY, "", None, None, "http://127.0.0.1:1", None, 0)
            self.seen[name] = Observation(True, state, None)

    def kill_all(self) -> None:
        for name in self.seen:
            self.seen[name] = Observation(False, None, None, ("last words",))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path / "home", tmp_path / "cache", tmp_path / "s")
    made.create()
    return made


@pytest.fixture
def database(home: Home) -> Iterator[Database]:
    opened = open_database(home.store)
    yield opened
    opened.close()


@pytest.fixture
def stand() -> Stand:
    return Stand()


class Time:
    """UTC ms that only a test moves."""

    now = 1_000_000


@pytest.fixture
def controller(home: Home, database: Database, stand: Stand) -> Controller:
    ids = iter(f"r{number}" for number in range(100))
    return Controller(home, database, stand, now=lambda: Time.now, new_id=lambda: next(ids))


def _endpoint(database: Database, name: str = "a", declaration: dict[str, Any] = DECLARATION) -> int:
    if name not in {record.name for record in Endpoints(database).list()}:
        Endpoints(database).insert(name, {"model": "m"}, at=1)
    number = Revisions(database).append(
        name, digest="d", source="x = 1\n", plan=None, declaration=declaration, origin="planned", at=1
    )
    Endpoints(database).set_revision(name, number, at=1)
    return number


async def test_a_revision_becomes_active_and_is_published(
    controller: Controller, database: Database, stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    _endpoint(database)
    published: list[dict[str, Any]] = []
    monkeypatch.setattr(controller.link, "publish", published.append)
    await controller.round()
    stand.ready()
    await controller.round()
    assert Revisions(database).get("a", 1).status == "active"
    assert [replica["id"] for replica in published[-1]["replicas"]] == ["r0"]
    versions = [table["version"] for table in published]
    assert versions == sorted(set(versions))


async def test_a_proven_revision_is_replaced_with_a_pause(
    controller: Controller, database: Database, stand: Stand
) -> None:
    _endpoint(database)
    await controller.round()
    stand.ready()
    await controller.round()
    stand.kill_all()
    await controller.round()
    assert stand.removed == ["r0"]
    assert controller.members() == []
    await controller.round()
    assert controller.members() == []  # the pause
    Time.now += 1_001
    await controller.round()
    assert [member.id for member in controller.members()] == ["r1"]
    (failed,) = [event for event in Events(database).list("a") if event.kind == events.REPLICA_FAILED]
    assert failed.data["log"] == ["last words"]


async def test_a_new_revision_that_fails_gives_way_to_the_one_before(
    controller: Controller, database: Database, stand: Stand
) -> None:
    _endpoint(database)
    await controller.round()
    stand.ready()
    await controller.round()
    _endpoint(database)
    await controller.round()
    stand.seen["r1"] = Observation(False, None, {"code": 9, "reason": "no good", "log": []})
    await controller.round()
    assert Endpoints(database).get("a").revision == 1
    assert Revisions(database).get("a", 2).status == "failed"
    assert [member.id for member in controller.members()] == ["r0"]


async def test_a_purge_between_two_reads_harms_nobody(
    controller: Controller, database: Database, stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    _endpoint(database)
    await controller.round()
    stale = Endpoints(database).list()
    Endpoints(database).delete("a")
    with monkeypatch.context() as patch:
        patch.setattr(controller._endpoints, "list", lambda: stale)
        with pytest.raises(Exception, match="no revision 1"):
            await controller.round()
        assert await controller._guarded_round() is False
    await controller.round()
    Time.now += 2_000
    await controller.round()
    await controller.round()
    assert controller.members() == []
    assert stand.removed == ["r0"]


async def test_revoking_the_last_key_shuts_the_door(
    controller: Controller, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    published: list[dict[str, Any]] = []
    monkeypatch.setattr(controller.link, "publish", published.append)
    await controller.round()
    assert published[-1]["require_keys"] is False
    keys = Keys(database)
    keys.create("k", scopes=["inference"], endpoints=None, limits={}, expires_at=None, at=1)
    await controller.round()
    keys.revoke("k", at=2)
    await controller.round()
    assert (published[-1]["require_keys"], published[-1]["keys"]) == (True, [])


async def test_what_a_gateway_reports_is_counted_and_spends_the_budget(
    home: Home, controller: Controller, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = Keys(database)
    made, _ = keys.create("ci", scopes=[], endpoints=None, limits={"budget_tokens": 100}, expires_at=None, at=1)
    published: list[dict[str, Any]] = []
    monkeypatch.setattr(controller.link, "publish", published.append)
    await controller.link.start()
    try:
        await controller.round()
        assert published[-1]["keys"][0]["limits"] == {"budget_tokens": 100, "spent_tokens": 0}
        record = {"key": made.id, "outcome": "ok", "prompt_tokens": 90, "completion_tokens": 20}
        _, writer = await asyncio.open_unix_connection(str(home.gateway_socket))
        line = {"type": "report", "replicas": {}, "records": [record, record]}
        writer.write(json.dumps(line).encode() + b"\n")
        async with asyncio.timeout(10):
            while not Usage(database).all():
                await asyncio.sleep(0.01)
                await controller.round()
        writer.close()
    finally:
        await controller.link.close()
    assert Usage(database).all() == {made.id: Used(2, 180, 40)}
    assert published[-1]["keys"][0]["limits"] == {"budget_tokens": 100, "spent_tokens": 100}


async def test_what_engines_and_gateways_say_is_measured(
    home: Home, controller: Controller, database: Database, stand: Stand
) -> None:
    def respond(asked: Asked) -> Answer:
        assert asked.headers["authorization"] == f"Bearer {controller.members()[0].replica.spec.key}"
        return Answer(body=b"llamacpp:requests_processing 3\n", kind="text/plain")

    _endpoint(database, declaration={**DECLARATION, "engine": {"name": "llamacpp"}})
    await controller.round()
    with serving(respond) as engine:
        state = ReplicaState(Stage.READY, "", None, None, engine.url, f"{engine.url}/metrics", 0)
        stand.seen["r0"] = Observation(True, state, None)
        running = asyncio.create_task(controller.run())
        try:
            await _until(lambda: controller.stats("a")["engine"])
            unconnected = controller.stats("a")
            assert unconnected["gateway"] is unconnected["held"] is None
            _, writer = await asyncio.open_unix_connection(str(home.gateway_socket))
            finished = {"endpoint": "a", "replica": "r0", "outcome": "ok", "at": Time.now, "e2e": 0.0, "key": None}
            finished |= {"prompt_tokens": 90, "completion_tokens": 20, "ttft": None, "itl": None}
            report = {"type": "report", "replicas": {"r0": {"in_flight": 2}}, "waiting": {"a": 5, "b": 9}}
            for line in ({"type": "hello", "pid": 1, "url": "u"}, {**report, "records": [finished]}):
                writer.write(json.dumps(line).encode() + b"\n")
            await _until(lambda: controller.stats("a")["held"])
            found = controller.stats("a")
            writer.close()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert (found["held"], found["gateway"]["requests"], found["gateway"]["in_flight"]) == (5, 1, 2)
    assert found["engine"]["running"] == found["replicas"][0]["engine"]["running"] == 3


async def _until(seen: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while True:
            if seen():
                return
            await asyncio.sleep(0.01)
