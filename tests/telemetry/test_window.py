"""Rolling sums against an oracle that keeps every record."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from outrider.metrics.record import Outcome
from outrider.telemetry.window import WINDOW, Window, covered

NOW = 1_764_000_000_500


def record(**changes: Any) -> dict[str, Any]:
    """A gateway's record, as far as it is read; ``ended`` is UTC ms."""
    ended = changes.pop("ended", NOW)
    fields: dict[str, Any] = {
        "endpoint": "a",
        "replica": "r1",
        "outcome": Outcome.OK,
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "ttft": 0.1,
        "itl": 0.01,
        "e2e": 2.0,
    } | changes
    return {"at": ended - round(fields["e2e"] * 1000), **fields}


_RECORDS = st.lists(
    st.builds(
        lambda before, outcome, tokens: record(
            ended=NOW - before, outcome=outcome, prompt_tokens=tokens, completion_tokens=tokens
        ),
        st.integers(0, 3 * WINDOW * 1000),
        st.sampled_from(list(Outcome)),
        st.none() | st.integers(0, 9),
    )
)


@given(_RECORDS, st.integers(0, 2 * WINDOW * 1000))
def test_a_sum_is_of_what_ended_in_the_last_seconds(records: list[dict[str, Any]], later: int) -> None:
    window = Window()
    for one in records:
        window.add(one, NOW)
    now = NOW + later
    first = (now // 1000 - WINDOW + 1) * 1000
    inside = [one for one in records if one["at"] + 2000 >= first]
    served = [one for one in inside if one["outcome"] != Outcome.REFUSED]
    known = [one["completion_tokens"] for one in served if one["completion_tokens"] is not None]
    found = window.sum(now)
    assert (found.requests, found.refused) == (len(served), len(inside) - len(served))
    assert found.completion_tokens == found.prompt_tokens == (sum(known) if known or not served else None)
    assert found.ttft.count == found.itl.count == len(served)
    assert found.e2e.count == sum(one["outcome"] == Outcome.OK for one in served)
    assert found.failed == sum(one["outcome"] in ("failed", "upstream_gone", "timed_out") for one in served)
    assert window.empty(now) == (not inside)


def test_tokens_that_nobody_counted_are_unknown_and_none_at_all_are_zero() -> None:
    window = Window()
    assert window.sum(NOW).completion_tokens == 0
    window.add(record(completion_tokens=None, prompt_tokens=None), NOW)
    assert window.sum(NOW).completion_tokens is window.sum(NOW).prompt_tokens is None
    window.add(record(completion_tokens=5), NOW)
    assert window.sum(NOW).completion_tokens == 5


def test_a_clock_that_runs_ahead_counts_as_now() -> None:
    window = Window()
    window.add(record(ended=NOW + 5_000), NOW)
    assert window.sum(NOW).requests == window.sum(NOW + 59_000).requests == 1
    assert window.sum(NOW + 60_000).requests == 0


def test_what_is_covered() -> None:
    assert covered(NOW, NOW) == 1.0
    assert covered(NOW, NOW + 5_000) == 5.0
    assert covered(0, NOW) == 59.5
