"""A simulated replica and what it keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.sim.clock import Clock
from outrider.sim.replicas import Hardware, PrefixCache, SimulatedReplica
from outrider.sim.traces import Segment, SimulatedRequest

HARDWARE = Hardware(prefill_rate=1000, itl=0.1, kv_tokens=10_000, page=10)


def request(*segments: Segment, output: int = 5) -> SimulatedRequest:
    return SimulatedRequest(0.0, sum(tokens for _, tokens in segments), output, None, segments, ())


def test_hits_end_where_prompts_part() -> None:
    cache = PrefixCache(1000, 10)
    cache.add([(1, 100), (2, 50)])
    assert cache.hit([(1, 100), (2, 50)]) == 150
    assert cache.hit([(1, 100), (3, 50)]) == 100
    assert cache.hit([(1, 57), (2, 50)]) == 57 // 10 * 10 + 50
    assert cache.hit([(1, 200), (2, 50)]) == 100
    assert cache.hit([(3, 50), (2, 50)]) == 0


def test_the_least_recently_used_is_trimmed_from_its_end() -> None:
    cache = PrefixCache(300, 10)
    cache.add([(1, 100), (2, 100)])
    cache.add([(3, 100)])
    cache.add([(4, 50)])
    assert (cache.hit([(1, 100), (2, 100)]), cache.hit([(3, 100)])) == (150, 100)
    cache.add([(5, 60)])
    assert (cache.hit([(1, 100), (2, 100)]), cache.hit([(3, 100)])) == (90, 100)


@given(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 80)), max_size=4), max_size=30))
def test_it_never_holds_more_than_its_size(prompts: list[list[Segment]]) -> None:
    cache = PrefixCache(100, 10)
    for prompt in prompts:
        cache.add(prompt)
        assert 0 <= cache.used <= 100
        assert cache.hit(prompt) <= sum(tokens for _, tokens in prompt)


def test_prompts_are_read_one_after_another_and_answers_written_at_once() -> None:
    clock = Clock()
    replica = SimulatedReplica(HARDWARE, clock)
    ends: list[float] = []
    counts = [0, 0]

    def written(index: int, tokens: int) -> None:
        counts[index] += tokens
        if not tokens:
            ends.append(clock.now)

    first = replica.serve(request((1, 1000)), lambda tokens: written(0, tokens))
    second = replica.serve(request((2, 500), output=21), lambda tokens: written(1, tokens))
    while clock.step():
        pass
    assert [*first, *second] == pytest.approx([0.0, 1.0, 1.0, 1.5])
    assert ends == pytest.approx([1.4, 3.5])
    assert counts == [5, 21]


def test_a_second_prompt_reads_what_the_first_did_not() -> None:
    replica = SimulatedReplica(HARDWARE, Clock())
    replica.serve(request((1, 1000), (2, 100)), lambda _: None)
    begin, first = replica.serve(request((1, 1000), (3, 100)), lambda _: None)
    assert first - begin == pytest.approx(0.1)
    assert (replica.hits, replica.read) == (1000, 1200)


def test_the_next_turn_finds_the_answer_cached_and_reads_one_token_at_least() -> None:
    replica = SimulatedReplica(HARDWARE, Clock())
    replica.serve(request((1, 100), output=50), lambda _: None)
    replica.serve(request((1, 150)), lambda _: None)
    assert replica.read == 101


def test_an_empty_answer_ends() -> None:
    clock = Clock()
    ended: list[int] = []
    SimulatedReplica(HARDWARE, clock).serve(request((1, 10), output=0), ended.append)
    while clock.step():
        pass
    assert ended[-1] == 0 and sum(ended) <= 1
