"""Replays: what must hold of every policy, and which policy is good at what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import UsageError
from outrider.sim.policies import POLICIES, policy
from outrider.sim.replicas import Hardware
from outrider.sim.routing import Outcome, Scene, replay
from outrider.sim.traces import PROFILES, Arrival, arrival, generate, parse


def made(name: str, *, seconds: float, rate: float) -> list[Arrival]:
    lines = (json.dumps(fields) for fields in generate(PROFILES[name], seconds=seconds, rate=rate, seed=1))
    return parse(lines, name)


def all_of(trace: list[Arrival], scene: Scene) -> dict[str, Outcome]:
    return {name: replay(trace, policy(name), scene) for name in POLICIES}


requests = st.fixed_dictionaries(
    {
        "at": st.floats(0, 10),
        "input_tokens": st.integers(0, 5000),
        "output_tokens": st.integers(0, 500),
        "shared_prefix_tokens": st.integers(0, 5000),
        "prefix_id": st.sampled_from("ab"),
        "affinity_key": st.none() | st.sampled_from("xy"),
    }
)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(requests, min_size=1, max_size=25),
    st.sampled_from(list(POLICIES)),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 3000),
)
def test_every_request_is_served_once_and_twice_the_same(
    fields: list[dict[str, Any]], name: str, replicas: int, concurrency: int, kv_tokens: int
) -> None:
    trace = sorted((arrival(one, index) for index, one in enumerate(fields)), key=lambda one: one.at)
    scene = Scene(replicas, Hardware(max_concurrency=concurrency, kv_tokens=kv_tokens))
    done = []
    first = replay(trace, policy(name), scene, on_done=lambda: done.append(1))
    assert first == replay(trace, policy(name), scene)
    assert first.requests == len(trace) == len(done)
    assert 0 <= first.hit_rate < 1
    total = sum(one.input_tokens for one in trace)
    assert sum(first.tokens) == pytest.approx(total - first.hit_rate * max(1, total), abs=0.01)
    assert 0 <= first.wait.p50 <= first.wait.p95 <= first.wait.p99 <= first.ttft.p99
    assert len(first.tokens) == replicas


def test_conversations_find_their_way_back_by_prefix_and_wait_less() -> None:
    found = all_of(made("chat", seconds=60, rate=20), Scene())
    assert found["gateway"] == found["prefix"]
    assert found["prefix"].hit_rate > found["least-tokens"].hit_rate + 0.15
    assert found["prefix"].ttft.p99 < found["least-tokens"].ttft.p99 < found["random"].ttft.p99
    assert found["key"] == found["least-tokens"]  # nobody names a key


def test_keys_are_as_good_where_clients_send_them() -> None:
    found = all_of(made("agentic", seconds=240, rate=1), Scene(replicas=8))
    for name in ("key", "gateway"):
        assert found[name].hit_rate > found["least-tokens"].hit_rate + 0.15
        assert found[name].ttft.p50 < found["least-tokens"].ttft.p50


def test_load_is_more_even_the_more_is_known_of_it() -> None:
    found = all_of(made("realtime", seconds=120, rate=12), Scene())
    assert found["least-requests"].imbalance < found["two-choices"].imbalance < found["random"].imbalance
    assert found["least-tokens"].wait.p95 < found["random"].wait.p95


def test_one_hot_prefix_saturates_its_replica_and_spills() -> None:
    fields = [
        {"at": n / 20, "input_tokens": 2000, "output_tokens": 50, "shared_prefix_tokens": 1000, "prefix_id": "hot"}
        for n in range(200)
    ]
    trace = [arrival(one, index) for index, one in enumerate(fields)]
    roomy = Hardware(max_concurrency=1000)
    spilling = replay(trace, policy("prefix"), Scene(hardware=roomy))
    assert sum(read > 0 for read in spilling.tokens) == 3  # as many as it needs, and no more
    stuck = replay(trace, policy("prefix"), Scene(hardware=roomy, ttft_penalty=1e6))
    assert sorted(stuck.tokens)[:3] == [0, 0, 0]
    assert stuck.hit_rate > spilling.hit_rate and stuck.ttft.p99 > 5 * spilling.ttft.p99


def test_more_waits_than_a_replica_may_hold() -> None:
    trace = [arrival({"at": 0, "input_tokens": 1000, "output_tokens": 11}, index) for index in range(3)]
    hardware = Hardware(prefill_rate=1000, itl=0.1, max_concurrency=1)
    outcome = replay(trace, policy("gateway"), Scene(1, hardware))
    assert outcome.wait.p99 == pytest.approx(4.0)  # twice a second of reading and one of writing


def test_an_unknown_policy() -> None:
    with pytest.raises(UsageError, match="Choose among: random"):
        policy("nope")
