"""One endpoint's numbers, put together from records and pages."""

from __future__ import annotations

import json

import pytest

from outrider.engines.normalise import EngineMetrics
from outrider.telemetry.recent import Recent, Standing
from tests.telemetry.test_window import NOW, record

BEGUN = NOW - 600_000
R1, R2 = Standing("r1", 1, "ready", True, 2), Standing("r2", 2, "starting", False, 0)


def test_the_endpoint_is_the_sum_of_its_replicas_and_of_what_reached_none() -> None:
    recent = Recent(BEGUN)
    gone = [record(replica="gone", ttft=None, itl=None)] * 2
    recent.take([record()] * 3 + gone + [record(replica=None, outcome="refused"), record(endpoint="b")], NOW)
    found = recent.stats("a", [R1, R2], held=4, connected=True, now=NOW)
    every, (first, second) = found["gateway"], found["replicas"]
    assert (every["requests"], every["refused"], every["in_flight"], found["held"]) == (5, 1, 2, 4)
    assert (every["prompt_tokens"], every["output_tokens"]) == (35, 15)
    assert every["requests_per_second"] == pytest.approx(5 / found["covered"])
    assert (every["ttft"]["count"], every["e2e"]["count"]) == (3, 5)
    assert every["ttft"]["p50"] == pytest.approx(0.1, rel=0.6)
    assert (first["gateway"]["requests"], first["gateway"]["output_tokens"], first["gateway"]["in_flight"]) == (3, 9, 2)
    assert (second["gateway"]["requests"], second["gateway"]["ttft"]["p50"]) == (0, None)
    assert found["engine"] is first["engine"] is None
    json.dumps(found, allow_nan=False)


def test_without_a_gateway_its_numbers_are_unknown() -> None:
    found = Recent(BEGUN).stats("a", [R1], held=0, connected=False, now=NOW)
    assert found["held"] is found["gateway"] is found["replicas"][0]["gateway"] is None


def test_a_replica_that_is_not_ready_does_not_hide_the_others() -> None:
    recent = Recent(BEGUN)
    recent.read("r1", EngineMetrics(running=2), NOW)
    found = recent.stats("a", [R1, R2], held=0, connected=True, now=NOW)
    assert found["engine"]["running"] == found["replicas"][0]["engine"]["running"] == 2
    assert found["replicas"][1]["engine"] is None


def test_what_ended_before_it_was_told_of_everything_is_left_out() -> None:
    recent = Recent(NOW - 2000)
    recent.take([record(ended=NOW - 2001), record(ended=NOW - 1999)], NOW)
    found = recent.stats("a", [], held=0, connected=True, now=NOW)
    assert (found["gateway"]["requests"], found["covered"]) == (1, 2.0)


def test_what_is_over_is_forgotten() -> None:
    recent = Recent(BEGUN)
    recent.take([record()], NOW)
    recent.read("r1", EngineMetrics(running=2), NOW)
    recent.forget(["r1"], NOW + 9_000)
    assert recent.stats("a", [R1], held=0, connected=True, now=NOW + 9_000)["engine"] is not None
    recent.forget([], NOW + 9_000)
    found = recent.stats("a", [R1], held=0, connected=True, now=NOW + 9_000)
    assert (found["engine"], found["gateway"]["requests"]) == (None, 1)
    recent.forget([], NOW + 61_000)
    assert not recent._windows and not recent._pages
