"""Limits of a key: buckets over time, claims and settlements, and what a client is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway.limits import Bucket, BudgetSpent, Claim, LimitReached, Meters, span
from outrider.gateway.table import Key, Limits
from tests.gateway.client import chat, key, serving, table
from tests.gateway.standin import Standin


def limited(**limits: int) -> Key:
    return Key("k1", "ci", "h", None, frozenset({"inference"}), None, Limits(**limits))


def claim(meters: Meters, one: Key, tokens: int, now: float) -> Claim:
    made = meters.claim(one, tokens, now)
    assert made is not None
    return made


def told(error: LimitReached | BudgetSpent) -> dict[str, str]:
    return dict(error.details["headers"])


def test_a_key_without_limits_claims_nothing() -> None:
    assert Meters().claim(limited(), 10**9, 0.0) is None
    assert Meters().claim(None, 10**9, 0.0) is None


def test_requests_a_minute() -> None:
    meters, one = Meters(), limited(requests_per_minute=3)
    for _ in range(3):
        claim(meters, one, 1, 100.0)
    with pytest.raises(LimitReached) as caught:
        meters.claim(one, 1, 100.0)
    assert told(caught.value) == {
        "x-ratelimit-limit-requests": "3",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1m0s",
        "retry-after": "20",
    }
    claim(meters, one, 1, 120.0)
    with pytest.raises(LimitReached):
        meters.claim(one, 1, 120.0)


def test_tokens_a_minute_are_claimed_by_estimate_and_settled_by_count() -> None:
    meters, one = Meters(), limited(tokens_per_minute=1000)
    first = claim(meters, one, 600, 0.0)
    with pytest.raises(LimitReached, match="tokens a minute, requested about 600"):
        meters.claim(one, 600, 0.0)
    meters.settle(first, 90, 10, answered=True)
    second = claim(meters, one, 600, 0.0)
    assert b"x-ratelimit-remaining-tokens: 300\r\n" in second.head
    meters.settle(second, 1000, 900, answered=True)
    with pytest.raises(LimitReached) as caught:
        meters.claim(one, 1, 0.0)
    assert told(caught.value)["retry-after"] == "61"


def test_a_request_larger_than_the_limit_passes_when_nothing_else_does() -> None:
    meters, one = Meters(), limited(tokens_per_minute=100)
    claim(meters, one, 5000, 0.0)
    with pytest.raises(LimitReached):
        meters.claim(one, 5000, 60.0)


def test_a_budget_is_for_life() -> None:
    meters, one = Meters(), limited(budget_tokens=100)
    made = claim(meters, one, 10, 0.0)
    meters.settle(made, 80, 20, answered=True)
    with pytest.raises(BudgetSpent) as caught:
        meters.claim(one, 1, 1e9)
    assert (caught.value.status, caught.value.code) == (429, "insufficient_quota")
    assert told(caught.value) == {"x-should-retry": "false"}


def test_what_the_controller_counted_before_this_process_counts() -> None:
    with pytest.raises(BudgetSpent):
        Meters().claim(limited(budget_tokens=100, spent_tokens=100), 1, 0.0)


def test_hanging_up_before_the_count_is_not_free_and_a_refusal_is() -> None:
    meters, one = Meters(), limited(tokens_per_minute=1000)
    meters.settle(claim(meters, one, 400, 0.0), None, None, answered=True)
    meters.settle(claim(meters, one, 400, 0.0), None, None, answered=False)
    claim(meters, one, 600, 0.0)
    with pytest.raises(LimitReached):
        meters.claim(one, 1, 0.0)


def test_changed_limits_keep_what_was_used() -> None:
    meters = Meters()
    for _ in range(3):
        claim(meters, limited(requests_per_minute=3), 1, 0.0)
    larger = limited(requests_per_minute=5)
    claim(meters, larger, 1, 0.0)
    claim(meters, larger, 1, 0.0)
    with pytest.raises(LimitReached):
        meters.claim(larger, 1, 0.0)


def test_a_key_that_is_gone_is_forgotten() -> None:
    meters, one = Meters(), limited(requests_per_minute=1)
    made = claim(meters, one, 1, 0.0)
    meters.retain([])
    meters.settle(made, 1, 1, answered=True)
    claim(meters, one, 1, 0.0)


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.floats(0, 30), st.integers(1, 60), st.booleans(), st.integers(0, 80)), max_size=40),
)
def test_no_minute_passes_more_than_the_bucket_and_what_flowed_in(
    per_minute: int, steps: list[tuple[float, int, bool, int]]
) -> None:
    meters, one = Meters(), limited(tokens_per_minute=per_minute, budget_tokens=10**6)
    now, used, debt = 0.0, 0, 0
    for wait, tokens, answered, took in steps:
        now += wait
        try:
            made = claim(meters, one, tokens, now)
        except LimitReached as error:
            assert float(told(error)["retry-after"]) > 0
            continue
        meters.settle(made, took, 0, answered=answered)
        used += took
        debt = max(debt, tokens, took)
    assert used <= per_minute + now * per_minute / 60 + debt


@given(st.integers(1, 1000), st.floats(-1000, 1000), st.floats(0, 1e6), st.integers(1, 2000))
def test_after_the_wait_there_is_enough(per_minute: int, level: float, at: float, amount: int) -> None:
    bucket = Bucket(per_minute, min(level, per_minute), at)
    later = bucket.now(at + bucket.wait(amount) + 1e-3)
    assert later.level >= min(amount, per_minute) - 1e-6


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (0.02, "20ms"), (1, "1s"), (1.5, "1.5s"), (60, "1m0s"), (369.25, "6m9.25s")]
)
def test_spans_are_written_as_openai_does(seconds: float, text: str) -> None:
    assert span(seconds) == text


async def test_over_the_limit_is_429_in_openai_s_form() -> None:
    keys = [key("s", limits={"requests_per_minute": 1, "tokens_per_minute": 5000})]
    async with Standin() as engine, serving(table([engine], keys=keys)) as served:
        first = await served.ask(chat("x-api-key: s"))
        assert first.status == 200
        assert first.headers["x-ratelimit-limit-requests"] == "1"
        assert first.headers["x-ratelimit-remaining-requests"] == "0"
        second = await served.ask(chat("Authorization: Bearer s"))
        assert second.status == 429
        assert second.json()["error"]["type"] == "rate_limit_error"
        assert second.json()["error"]["code"] == "rate_limit_exceeded"
        assert 1 <= int(second.headers["retry-after"]) <= 60
        assert second.headers["x-ratelimit-remaining-tokens"] == "4990"
        assert len(engine.asked) == 1


async def test_a_refused_request_costs_no_tokens() -> None:
    keys = [key("s", limits={"tokens_per_minute": 300})]
    async with Standin() as engine, serving(table(keys=keys, state="failed")) as served:
        assert (await served.ask(chat("x-api-key: s"))).status == 503
        assert served.gateway.use(table([engine], keys=keys, version=2))
        reply = await served.ask(chat("x-api-key: s"))
        assert reply.status == 200
        assert int(reply.headers["x-ratelimit-limit-tokens"]) == 300


async def test_a_revoked_key_stops_with_the_next_table() -> None:
    async with Standin() as engine, serving(table([engine], keys=[key("a"), key("b")])) as served:
        assert (await served.ask(chat("x-api-key: a"))).status == 200
        assert served.gateway.use(table([engine], keys=[key("b")], version=2))
        assert (await served.ask(chat("x-api-key: a"))).status == 401
        assert (await served.ask(chat("x-api-key: b"))).status == 200


async def test_limits_of_a_newer_table_hold_at_once() -> None:
    async with Standin() as engine, serving(table([engine], keys=[key("a")])) as served:
        reply = await served.ask(chat("x-api-key: a"))
        assert reply.status == 200 and "x-ratelimit-limit-tokens" not in reply.headers
        spent: dict[str, Any] = {"budget_tokens": 10, "spent_tokens": 10}
        assert served.gateway.use(table([engine], keys=[key("a", limits=spent)], version=2))
        reply = await served.ask(chat("x-api-key: a"))
        assert (reply.status, reply.json()["error"]["code"]) == (429, "insufficient_quota")
