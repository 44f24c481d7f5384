"""Traces that are made up."""

from __future__ import annotations

import io
import itertools
import math
from pathlib import Path

import pytest

from outrider.errors import UsageError
from outrider.loadgen.profiles import PROFILES
from outrider.loadgen.sources import SOURCES, generate, sources
from outrider.loadgen.traces import Arrival, parse_trace, write_trace

EXAMPLE = Path(__file__).parents[2] / "examples" / "traces" / "agentic.jsonl"


def made(name: str, *, seconds: float = 200, rate: float = 5, seed: int = 1) -> list[Arrival]:
    return list(generate(sources(name), seconds=seconds, rate=rate, seed=seed))


def test_every_profile_has_its_sources() -> None:
    assert SOURCES.keys() == PROFILES.keys()
    assert all(kind.profile is PROFILES[name] for name, kind in SOURCES.items())


@pytest.mark.parametrize("name", SOURCES)
def test_a_made_up_trace_is_repeatable_and_readable(name: str) -> None:
    first, second, other = (made(name, seed=seed) for seed in (1, 1, 2))
    assert first == second != other
    assert 850 < len(first) < 1150
    assert all(0 <= one.at < 200 for one in first)
    file = io.StringIO()
    write_trace(file, first)
    file.seek(0)
    assert parse_trace(file, "made") == first


def test_lengths_are_the_profiles() -> None:
    for name in ("realtime", "agentic"):
        typical = PROFILES[name].typical
        assert {one.shape[:3] for one in made(name)} == {typical[:3]}


def test_nobody_shares_anything_in_real_time() -> None:
    assert {one.shape.prefix_id for one in made("realtime")} == {None}


def test_agents_name_their_key_and_are_unequally_busy() -> None:
    found = made("agentic", seconds=1000)
    assert all(one.shape.affinity_key == one.shape.prefix_id for one in found)
    sent = [sum(one.shape.prefix_id == str(number) for one in found) for number in range(16)]
    assert sum(sent) == len(found)
    for first, second in itertools.combinations(range(4), 2):  # the n-th sends 1/n as many
        assert sent[first] / sent[second] == pytest.approx((second + 1) / (first + 1), rel=0.2)


def test_conversations_grow_until_they_end() -> None:
    turns: dict[str | None, list[Arrival]] = {}
    for one in made("chat", seconds=1000):
        assert one.shape.shared_prefix_tokens == one.shape.input_tokens and one.shape.affinity_key is None
        turns.setdefault(one.shape.prefix_id, []).append(one)
    for talk in turns.values():
        assert 200 < talk[0].shape.input_tokens <= 200 + math.ceil(400 * math.e)
        for before, after in itertools.pairwise(talk):
            assert after.shape.input_tokens > before.shape.input_tokens + before.shape.output_tokens
    ended = [talk for name, talk in turns.items() if f"{name}".startswith("0.")]
    assert 5 < sum(map(len, ended)) / len(ended) < 20


def test_an_unknown_profile() -> None:
    with pytest.raises(UsageError, match="Choose among: realtime, agentic, chat"):
        sources("nope")


def test_the_example_is_what_the_command_makes() -> None:
    file = io.StringIO()
    write_trace(file, made("agentic", seconds=60, rate=1, seed=0))
    assert EXAMPLE.read_text() == file.getvalue()
