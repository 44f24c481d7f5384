"""Replays: what must hold of every policy, and which policy is good at what."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.errors import UsageError
from outrider.loadgen.profiles import Shape
from outrider.loadgen.sources import generate, sources
from outrider.loadgen.traces import Arrival
from outrider.sim.policies import POLICIES, policy
from outrider.sim.replicas import Hardware
from outrider.sim.routing import Outcome, Scene, replay
from outrider.sim.traces import SimulatedRequest, simulated


def made(name: str, *, seconds: float, rate: float) -> list[SimulatedRequest]:
    return simulated(generate(sources(name), seconds=seconds, rate=rate, seed=1))


def all_of(trace: list[SimulatedRequest], scene: Scene) -> dict[str, Outcome]:
    return {name: replay(trace, policy(name), scene) for name in POLICIES}


shapes = st.builds(
    lambda own, output, shared, prefix, key: Shape(shared + own, output, shared, prefix, key),
    st.integers(1, 5000),
    st.integers(1, 500),
    st.integers(0, 5000),
    st.sampled_from("ab"),
    st.none() | st.sampled_from("xy"),
)
requests = st.builds(Arrival, st.floats(0, 10), shapes, st.none())


@settings(max_examples=30, deadline=None)
@given(
    st.lists(requests, min_size=1, max_size=25),
    st.sampled_from(list(POLICIES)),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 3000),
)
def test_every_request_is_served_once_and_twice_the_same(
    arrivals: list[Arrival], name: str, replicas: int, concurrency: int, kv_tokens: int
) -> None:
    trace = simulated(sorted(arrivals, key=lambda one: one.at))
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
    found = all_of(made("chat", seconds=60, rate=10), Scene())
    assert found["gateway"] == found["prefix"]
    assert found["prefix"].hit_rate > found["least-tokens"].hit_rate + 0.15
    assert found["prefix"].ttft.p99 < found["least-tokens"].ttft.p99 < found["random"].ttft.p99
    assert found["key"] == found["least-tokens"]  # nobody names a key


def test_keys_are_as_good_where_clients_send_them() -> None:
    found = all_of(made("agentic", seconds=240, rate=2), Scene(replicas=8))
    for name in ("key", "gateway"):
        assert found[name].hit_rate > found["least-tokens"].hit_rate + 0.15
        assert found[name].ttft.p50 < found["least-tokens"].ttft.p50


def test_load_is_more_even_the_more_is_known_of_it() -> None:
    found = all_of(made("realtime", seconds=120, rate=8), Scene())
    assert found["least-requests"].imbalance < found["two-choices"].imbalance < found["random"].imbalance
    assert found["least-tokens"].wait.p95 < found["random"].wait.p95


def test_one_hot_prefix_saturates_its_replica_and_spills() -> None:
    trace = simulated(Arrival(number / 20, Shape(2000, 50, 1000, "hot")) for number in range(200))
    roomy = Hardware(max_concurrency=1000)
    spilling = replay(trace, policy("prefix"), Scene(hardware=roomy))
    assert sum(read > 0 for read in spilling.tokens) == 3  # as many as it needs, and no more
    stuck = replay(trace, policy("prefix"), Scene(hardware=roomy, ttft_penalty=1e6))
    assert sorted(stuck.tokens)[:3] == [0, 0, 0]
    assert stuck.hit_rate > spilling.hit_rate and stuck.ttft.p99 > 5 * spilling.ttft.p99


def test_more_waits_than_a_replica_may_hold() -> None:
    trace = simulated([Arrival(0.0, Shape(1000, 11))] * 3)
    hardware = Hardware(prefill_rate=1000, itl=0.1, max_concurrency=1)
    outcome = replay(trace, policy("gateway"), Scene(1, hardware))
    assert outcome.wait.p99 == pytest.approx(4.0)  # twice a second of reading and one of writing


def test_an_unknown_policy() -> None:
    with pytest.raises(UsageError, match="Choose among: random"):
        policy("nope")
