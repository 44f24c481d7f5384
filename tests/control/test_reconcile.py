"""What the controller decides, from plain values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from outrider.app.server import Stage
from outrider.control.reconcile import (
    Activate,
    Drain,
    Kill,
    Remove,
    Seen,
    Start,
    Stop,
    Wanted,
    backoff,
    reconcile,
)


def wanted(**changes: object) -> Wanted:
    values = {"running": True, "revision": 1, "proven": True, "count": 1, "grace": 30_000, **changes}
    return Wanted(**values)  # type: ignore[arg-type]


def seen(id: str = "a", revision: int = 1, stage: Stage = Stage.READY, **changes: object) -> Seen:
    values = {"alive": True, "in_flight": 0, "draining_since": None, "stopping_since": None, **changes}
    return Seen(id=id, revision=revision, stage=stage, **values)  # type: ignore[arg-type]


def test_starts_what_is_missing() -> None:
    assert reconcile(wanted(count=2), [seen()], 0) == [Start(1)]


def test_agrees_and_does_nothing() -> None:
    assert reconcile(wanted(), [seen()], 0) == []


def test_a_new_revision_takes_over_only_when_ready() -> None:
    old, rising = seen("old", 1), seen("new", 2, Stage.WARMING)
    assert reconcile(wanted(revision=2, proven=False), [old, rising], 0) == []
    actions = reconcile(wanted(revision=2, proven=False), [old, seen("new", 2)], 0)
    assert actions == [Activate(2), Drain("old", "revision 2 replaces it")]


def test_a_drained_replica_is_stopped_once_idle() -> None:
    busy = seen(draining_since=0, in_flight=1)
    assert reconcile(wanted(running=False), [busy], 5_000) == []
    assert reconcile(wanted(running=False), [seen(draining_since=0)], 5_000) == [Stop("a")]


def test_a_drained_replica_is_stopped_after_its_grace_however_busy() -> None:
    assert reconcile(wanted(running=False), [seen(draining_since=0, in_flight=3)], 30_000) == [Stop("a")]


def test_what_does_not_end_is_killed() -> None:
    stuck = seen(draining_since=0, stopping_since=0)
    (action,) = reconcile(wanted(running=False), [stuck], 40_000)
    assert isinstance(action, Kill)


def test_the_dead_are_buried_before_another_is_started() -> None:
    assert reconcile(wanted(), [seen(alive=False)], 0) == [Remove("a")]
    assert reconcile(wanted(), [], 0) == [Start(1)]


def test_failures_are_paused_between() -> None:
    failing = wanted(failures=3, failed_at=10_000)
    assert reconcile(failing, [], 13_999) == []
    assert reconcile(failing, [], 14_000) == [Start(1)]


def test_backoff_grows_to_a_minute() -> None:
    assert [backoff(n) for n in (0, 1, 2, 3, 50)] == [0, 1_000, 2_000, 4_000, 60_000]


_replicas = st.lists(
    st.builds(
        Seen,
        id=st.uuids().map(str),
        revision=st.integers(1, 3),
        alive=st.booleans(),
        stage=st.sampled_from(list(Stage)),
        in_flight=st.integers(0, 3),
        draining_since=st.none() | st.integers(0, 50_000),
        stopping_since=st.none(),
    ),
    max_size=6,
    unique_by=lambda replica: replica.id,
)


@given(_replicas, st.booleans(), st.integers(1, 3), st.integers(0, 100_000))
def test_never_fewer_ready_than_wanted_by_its_own_doing(
    replicas: list[Seen], running: bool, count: int, now: int
) -> None:
    want = wanted(running=running, revision=2, count=count)
    actions = reconcile(want, replicas, now)
    drained = {action.replica for action in actions if isinstance(action, Drain)}
    removed = {action.replica for action in actions if isinstance(action, Remove)}
    starts = [action for action in actions if isinstance(action, Start)]
    assert removed == {replica.id for replica in replicas if not replica.alive}
    serving = [r for r in replicas if r.alive and r.draining_since is None]
    if not running:
        assert not starts
        assert drained == {r.id for r in serving}
        return
    ready = [r for r in serving if r.revision == 2 and r.stage is Stage.READY]
    assert sum(r.id not in drained for r in ready) >= min(count, len(ready))
    if len(ready) < count:
        assert not [r for r in serving if r.revision != 2 and r.id in drained]
