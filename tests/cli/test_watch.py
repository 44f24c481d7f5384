"""Waiting, as a pure function of the views seen."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.spinner import Spinner

from outrider.cli.waiting import drawn
from outrider.cli.watch import Watch, lines
from tests.cli.api import READY, Look, look


def _seen(*looks: Look, revision: int = 1) -> Watch:
    watch = Watch("small", revision, 0.0)
    for second, view in enumerate(looks, 1):
        watch = watch.see(view, float(second))
    return watch


def test_the_stages_follow_each_other_with_their_times() -> None:
    watch = _seen(look(), look("preparing"), look("preparing"), look("starting"), look("warming"), READY)
    assert [(s.stage, s.begun, s.ended) for s in watch.spans] == [
        ("preparing", 2, 4),
        ("starting", 4, 5),
        ("warming", 5, 6),
        ("ready", 6, 6),
    ]
    assert watch.outcome == "ready"


def test_a_stage_that_passed_between_two_looks_is_named() -> None:
    watch = _seen(look("starting"), READY)
    assert [(s.stage, s.begun, s.ended) for s in watch.spans] == [
        ("preparing", 1, 1),
        ("starting", 1, 2),
        ("warming", 2, 2),
        ("ready", 2, 2),
    ]


def test_one_that_died_goes_through_its_stages_again() -> None:
    watch = _seen(look("preparing"), look("warming"), look(), look("preparing"))
    stages = [span.stage for span in watch.spans]
    assert stages == ["preparing", "starting", "warming", "pending", "preparing"]


def test_speed_is_that_of_the_bytes_fetched_now() -> None:
    watch = _seen(look("preparing", done=50_000_000), look("preparing", done=60_000_000))
    assert watch.spans[0].speed(3.0) == 5_000_000  # 10 MB in the two seconds since the first report
    again = watch.see(look("preparing", done=1_000), 4.0)  # another file
    assert again.spans[0].speed(4.0) is None


def test_several_replicas_are_as_far_as_the_last_of_them() -> None:
    view = look("warming")
    view["replicas"] = [*view["replicas"], *look("preparing")["replicas"]]
    assert _seen(view).spans[-1].stage == "preparing"


def test_the_old_revision_being_ready_is_not_the_new_one_being_ready() -> None:
    view = look("ready", of=1, number=2, status="new", state="ready")
    assert _seen(view, revision=2).outcome == "waiting"
    assert _seen(view, revision=2).spans == ()


@pytest.mark.parametrize(
    ("view", "outcome", "reason"),
    [
        (look(status="failed", state="failed", reason="no weights"), "failed", "no weights"),
        (look("ready", number=1, status="active"), "failed", "revision 1 is back"),
        (look(number=3), "overtaken", "revision 3"),
        (look(number=2, desired="stopped"), "overtaken", "stopped"),
        (look("ready", of=2, number=2, status="new", state="ready"), "waiting", ""),
        (look("failed", of=2, number=2, state="pending"), "waiting", ""),
    ],
)
def test_when_it_is_over(view: Look, outcome: str, reason: str) -> None:
    view["revision"]["number"] = 2 if view["state"] == "failed" else view["revision"]["number"]
    watch = _seen(view, revision=2)
    assert watch.outcome == outcome
    assert reason in watch.reason


def test_each_stage_gives_a_line_and_its_bytes_another() -> None:
    watch, printed = Watch("small", 1, 0.0), []
    looks = [look(), look("preparing", done=1, detail="fetching x"), look("preparing", done=9), look("starting"), READY]
    for second, view in enumerate(looks, 1):
        after = watch.see(view, float(second))
        printed += lines(watch, after)
        watch = after
    assert [line.split() for line in printed] == [
        ["2.0", "s", "preparing", "fetching", "x", "(98.4", "MB)"],
        ["4.0", "s", "preparing", "98.4", "MB", "done"],
        ["4.0", "s", "starting"],
        ["5.0", "s", "warming"],
        ["5.0", "s", "ready"],
    ]


@pytest.mark.parametrize(
    ("looks", "shown"),
    [
        ([look()], ["pending"]),
        ([look("preparing", done=1), look("preparing", done=49_181_216)], ["preparing", "49.2 MB / 98.4 MB"]),
        ([look("preparing", detail="[/x] \x1b[2J hostile")], ["[/x]", "hostile"]),
        ([look("starting"), READY], ["✓ preparing", "✓ ready"]),
        ([look(status="failed", state="failed")], ["✗ pending"]),
        ([look("warming"), look(status="failed", state="failed")], ["✓ starting", "✗ warming"]),
    ],
)
def test_what_is_drawn(looks: list[Look], shown: list[str]) -> None:
    console = Console(file=io.StringIO(), width=100)
    with console.capture() as captured:
        console.print(drawn(_seen(*looks), 9.0, Spinner("dots")))
    for text in shown:
        assert text in captured.get()
    assert "\x1b" not in captured.get()
