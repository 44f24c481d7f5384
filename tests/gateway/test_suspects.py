"""The memory of replicas that gave no answer."""

from __future__ import annotations

from outrider.gateway.suspects import FIRST, LONGEST, Suspects


def test_skipped_for_a_while_that_grows() -> None:
    suspects = Suspects()
    now, lengths = 100.0, []
    for _ in range(7):
        suspects.failed("r0", now)
        start = now
        while "r0" in suspects.skipped(now):
            now += 0.25
        lengths.append(now - start)
        suspects.trying("r0", now, 5.0)
    assert lengths == [FIRST, 1.0, 2.0, 4.0, 8.0, LONGEST, LONGEST]


def test_failures_at_the_same_time_are_one() -> None:
    suspects = Suspects()
    for _ in range(50):
        suspects.failed("r0", 100.0)
    assert suspects.skipped(100.4) == {"r0"}
    assert suspects.skipped(100.5) == set()


def test_one_request_tries_while_the_others_pass_it_over() -> None:
    suspects = Suspects()
    suspects.failed("r0", 100.0)
    assert suspects.skipped(101.0) == set()
    suspects.trying("r0", 101.0, 5.0)
    assert suspects.skipped(105.9) == {"r0"}
    assert suspects.skipped(106.0) == set(), "whoever tried has left: the next may"
    suspects.trying("r0", 106.0, 5.0)
    suspects.failed("r0", 106.1)
    assert suspects.skipped(107.0) == {"r0"}
    assert suspects.skipped(107.1) == set()


def test_an_answer_ends_it() -> None:
    suspects = Suspects()
    assert not suspects
    suspects.failed("r0", 100.0)
    suspects.failed("r1", 100.0)
    assert suspects
    suspects.works("r0")
    assert suspects.skipped(100.1) == {"r1"}
    suspects.retain({"r0"})
    assert not suspects
    suspects.failed("r0", 200.0)
    assert suspects.skipped(200.0 + FIRST) == set(), "it starts anew"


def test_a_connect_alone_does_not_shorten_the_next_wait() -> None:
    suspects = Suspects()
    suspects.failed("r0", 100.0)
    suspects.reached("r0")
    assert suspects.skipped(100.1) == set()
    assert suspects, "until it has answered"
    suspects.failed("r0", 101.0)
    assert suspects.skipped(101.0 + FIRST) == {"r0"}
    assert suspects.skipped(101.0 + 2 * FIRST) == set()
