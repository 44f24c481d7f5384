"""Replicas as real processes of this machine: started, found again, limited, ended with all they started."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outrider.app.server import Stage
from outrider.errors import MachineFault
from outrider.placement import cgroup
from outrider.placement.base import Replica, ReplicaSpec
from outrider.placement.local import LocalPlacement
from outrider.placement.process import ProcessIdentity, detach, identify, session_members
from outrider.spec.home import Home

EXAMPLE = Path(__file__).parents[2] / "examples/http_server/serve.py"


def until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not look():
        assert time.monotonic() < deadline
        select.select([], [], [], 0.02)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    environ = {
        "OUTRIDER_HOME": str(tmp_path / "home"),
        "OUTRIDER_CACHE": str(tmp_path / "cache"),
        "HOME": str(tmp_path),
    }
    made = Home.from_environment(environ)
    made.create()
    return made


@pytest.fixture
def placement(home: Home) -> Iterator[LocalPlacement]:
    made = LocalPlacement(home)
    yield made
    for replica in made.adopt():
        made.kill(replica)
        made.remove(replica)
    home.sockets.rmdir()


def _spec(name: str = "abc", cpu: float | None = None) -> ReplicaSpec:
    return ReplicaSpec(name, "hello", 1, EXAMPLE, "key", cpu, 1)


def _ready(placement: LocalPlacement, replica: Replica) -> None:
    def look() -> bool:
        state = placement.observe(replica).state
        return state is not None and state.stage is Stage.READY

    until(look)


def test_a_replica_is_nobodys_child_and_is_found_again(placement: LocalPlacement, home: Home) -> None:
    replica = placement.start(_spec())
    _ready(placement, replica)
    assert LocalPlacement(home).adopt() == [replica]
    parent = Path(f"/proc/{replica.pid}/stat").read_text().rsplit(")", 1)[1].split()[1]
    assert parent == "1"
    placement.drain(replica)
    until(lambda: not placement.observe(replica).alive)
    seen = placement.observe(replica)
    assert seen.exit is not None and seen.exit["reason"] == "stopped"
    placement.remove(replica)
    assert list(home.replicas.iterdir()) == []
    assert list(home.sockets.iterdir()) == []


def test_a_killed_replica_takes_what_it_started_along(placement: LocalPlacement) -> None:
    replica = placement.start(_spec())
    _ready(placement, replica)
    assert len(session_members(replica.pid)) == 2
    placement.kill(replica)
    assert session_members(replica.pid) == []
    assert placement.observe(replica).exit is None  # no last words: it was killed


def test_a_home_that_was_never_used_holds_none(tmp_path: Path) -> None:
    unused = Home.from_environment({"OUTRIDER_HOME": str(tmp_path / "unused"), "HOME": str(tmp_path)})
    assert LocalPlacement(unused).adopt() == []


def test_a_start_that_was_cut_short_is_ended(placement: LocalPlacement, home: Home) -> None:
    replica = placement.start(_spec())
    (home.replicas / "abc/replica.json").unlink()
    assert placement.adopt() == []
    until(lambda: not ProcessIdentity(replica.pid, replica.started).alive())
    assert list(home.replicas.iterdir()) == []


@pytest.mark.skipif(cgroup.hierarchy() is None, reason="no cgroup that limits CPU can be written here")
def test_a_quota_is_one(placement: LocalPlacement) -> None:
    replica = placement.start(_spec(cpu=0.5))
    _ready(placement, replica)
    group = cgroup.hierarchy()
    assert group is not None
    found = group / "abc"
    v2 = found / "cpu.max"
    quota = v2.read_text().split()[0] if v2.exists() else (found / "cpu.cfs_quota_us").read_text().strip()
    assert quota == "50000"
    members = {int(pid) for pid in (found / "cgroup.procs").read_text().split()}
    assert members == set(session_members(replica.pid))
    placement.kill(replica)
    placement.remove(replica)
    assert not found.exists()


def test_what_cannot_start_is_said(tmp_path: Path) -> None:
    with pytest.raises(MachineFault, match="/no/such/program"):
        detach(["/no/such/program"], log=tmp_path / "log", env={}, cwd=tmp_path)


def test_a_pid_that_was_used_again_is_another_process() -> None:
    import os

    me = identify(os.getpid())
    assert me is not None and me.alive()
    assert not ProcessIdentity(me.pid, me.started + 1).alive()
