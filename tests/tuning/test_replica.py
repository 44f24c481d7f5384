"""Trials with a placement that starts a stand-in server: loads, the first failed request, a replica that dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.app.server import Stage
from outrider.app.state import ReplicaState
from outrider.errors import Conflict
from outrider.loadgen.load import Load
from outrider.loadgen.profiles import Shape
from outrider.loadgen.traces import Arrival
from outrider.placement.base import Observation, Replica, ReplicaSpec
from outrider.spec.home import Home
from outrider.tuning import replica
from outrider.tuning.replica import ReplicaBench, workplace
from outrider.tuning.settings import present
from tests.loadgen.standin import Standin, serving
from tests.tuning.world import job

WORDS = ({"role": "user", "content": "hello"},)


class Placed:
    """A placement whose replicas are one stand-in, ready at once, or dead."""

    def __init__(self, url: str, exit: dict[str, Any] | None = None) -> None:
        self.url, self.exit = url, exit
        self.sources: list[str] = []
        self.ended: list[str] = []

    def start(self, spec: ReplicaSpec) -> Replica:
        self.sources.append(spec.source.read_text())
        return Replica(spec, 2**22 + 1, 0)  # beyond the kernel's largest pid: nobody's

    def observe(self, replica: Replica) -> Observation:
        if self.exit is not None:
            return Observation(False, None, self.exit, ("loading", "out of memory"))
        return Observation(True, ReplicaState(Stage.READY, "", None, None, self.url, None, 0), None)

    def drain(self, replica: Replica) -> None:
        self.ended.append("drained")

    def kill(self, replica: Replica) -> None:
        self.ended.append("killed")

    def remove(self, replica: Replica) -> None:
        self.ended.append("removed")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    user = Home.from_environment({"OUTRIDER_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})
    with workplace(user) as own:
        yield own
    assert not own.root.exists() and not own.sockets.exists()


def bench(home: Home, placed: Placed) -> ReplicaBench:
    made = ReplicaBench(job().plan, home, seed=1, tell=lambda words: None)
    made._placement = placed  # type: ignore[assignment]
    return made


def load(count: int = 4, *, concurrency: int | None = None) -> Load:
    requests = tuple(Arrival(0.01 * number, Shape(8, 5), WORDS) for number in range(count))
    return Load("chat", requests, concurrency=concurrency, rate=None if concurrency else 100.0)


def test_a_trial_is_measured_and_its_replica_ended(home: Home) -> None:
    with serving(Standin(ttft=0.01, gap=0.001)) as standin:
        placed = Placed(standin.url.removesuffix("/v1"))
        setting = present(job().plan).with_flag("threads", 3)
        outcome = bench(home, placed).run(setting, [load(), load(concurrency=2)], 60.0)
    assert outcome.failure is None and not outcome.cut
    assert [(one.kind, one.concurrency, len(one.samples)) for one in outcome.loads] == [
        ("chat", None, 4),
        ("chat", 2, 4),
    ]
    assert [sample.number for sample in outcome.loads[1].samples] == [0, 1, 2, 3]
    assert all(sample.tokens == 5 and 0 < sample.ttft < sample.e2e for sample in outcome.loads[0].samples)
    assert "threads=3" in placed.sources[0]
    assert placed.ended == ["drained", "removed"]


def test_the_first_failed_request_ends_the_trial(home: Home) -> None:
    with serving(Standin(status=500)) as standin:
        placed = Placed(standin.url.removesuffix("/v1"))
        outcome = bench(home, placed).run(present(job().plan), [load(), load()], 60.0)
    assert outcome.failure == "a request of chat failed: 500: no room left"
    assert outcome.loads == ()
    assert placed.ended == ["killed", "removed"], "nobody waits for requests of a trial that lost"


def test_a_replica_that_ends_by_itself_loses_with_its_reason(home: Home) -> None:
    placed = Placed("", exit={"error": {"title": "vLLM ended", "detail": "no memory"}})
    tried = bench(home, placed)
    assert tried.run(present(job().plan), [load()], 60.0).failure == "vLLM ended: no memory"
    placed.exit = {"reason": "the engine ended"}
    assert tried.run(present(job().plan), [load()], 60.0).failure == "the engine ended: out of memory"


def test_a_trial_beyond_its_limit_is_cut(home: Home) -> None:
    with serving(Standin(ttft=30.0)) as standin:
        placed = Placed(standin.url.removesuffix("/v1"))
        outcome = bench(home, placed).run(present(job().plan), [load(1)], 0.5)
    assert outcome.cut and outcome.failure is None
    assert placed.ended == ["killed", "removed"]


def test_one_tuner_at_a_time(tmp_path: Path) -> None:
    user = Home.from_environment({"OUTRIDER_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})
    with workplace(user), pytest.raises(Conflict, match="Another tuner"), workplace(user):
        pass
    with workplace(user):
        pass


def test_what_an_earlier_tuner_left_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed, it could not end its replica: the next one does."""
    left = Placed("")
    monkeypatch.setattr(left, "adopt", lambda: ["of the killed one"], raising=False)
    monkeypatch.setattr(replica, "LocalPlacement", lambda home: left)
    user = Home.from_environment({"OUTRIDER_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})
    with workplace(user):
        assert left.ended == ["killed", "removed"]


def test_the_endpoints_fixed_port_is_not_taken(home: Home) -> None:
    plan = job().plan
    fixed = plan.model_copy(update={"server": plan.server.model_copy(update={"port": 18_099})})
    made = ReplicaBench(fixed, home, seed=1, tell=lambda words: None)
    placed = Placed("", exit={"reason": "ended"})
    made._placement = placed  # type: ignore[assignment]
    made.run(present(fixed), [load()], 5.0)
    assert "18_099" not in placed.sources[0] and "18099" not in placed.sources[0]
