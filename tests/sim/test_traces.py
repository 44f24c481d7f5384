"""Reading and making traces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import InvalidTrace, NotFound, UsageError
from outrider.gateway.prompt import EDGES
from outrider.sim.traces import PROFILES, arrival, generate, load, parse, profile

GOOD: dict[str, Any] = {"at": 0, "input_tokens": 3000, "output_tokens": 100}
EXAMPLE = Path(__file__).parents[2] / "examples" / "traces" / "agentic.jsonl"


def test_prompts_share_what_their_prefix_says() -> None:
    fields = {**GOOD, "shared_prefix_tokens": 2000, "prefix_id": "a", "affinity_key": "s1"}
    one, other = arrival(fields, 1), arrival(fields, 2)
    assert one.segments[0] == other.segments[0] and one.segments[0][1] == 2000
    assert one.segments[1] != other.segments[1] and one.segments[1][1] == 1000
    shared = sum(a == b for a, b in zip(one.blocks, other.blocks, strict=True))
    assert shared == sum(end <= 8000 for end in EDGES)
    assert len(one.blocks) == sum(end <= 12_000 for end in EDGES)
    assert one.affinity_key == "s1"


def test_messages_share_what_their_texts_share() -> None:
    def said(text: str) -> Any:
        system = {"role": "system", "content": "x" * 4000}
        return arrival(
            {"at": 0, "output_tokens": 1, "messages": [system, {"role": "user", "content": text}]}, ord(text[0])
        )

    one, other = said("a" * 400), said("b" * 400)
    assert 1100 <= one.input_tokens <= 1110
    same = [a[1] for a, b in zip(one.segments, other.segments, strict=True) if a == b]
    assert 850 < sum(same) <= 1002
    assert sum(tokens for _, tokens in one.segments) == one.input_tokens


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("nonsense", "Expecting value"),
        ("[]", "not a JSON object"),
        (json.dumps({**GOOD, "at": -1}), "at: -1"),
        (json.dumps({**GOOD, "at": "soon"}), "at: 'soon'"),
        (json.dumps({**GOOD, "at": True}), "at: True"),
        ('{"at": NaN, "input_tokens": 1, "output_tokens": 1}', "at: nan"),
        (json.dumps({"at": 0, "output_tokens": 1}), "input_tokens: missing"),
        (json.dumps({**GOOD, "output_tokens": 1.5}), "output_tokens: 1.5"),
        (json.dumps({**GOOD, "input_tokens": 10**12}), "input_tokens: 1000000000000"),
        (json.dumps({**GOOD, "shared_prefix_tokens": 5}), "prefix_id: missing"),
        (json.dumps({**GOOD, "messages": "hello"}), "messages: not a list"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_a_bad_line_is_named(line: str, why: str) -> None:
    with pytest.raises(InvalidTrace) as caught:
        parse([json.dumps(GOOD), "", line], "trace.jsonl")
    assert caught.value.what == "Line 3 of trace.jsonl is no request"
    assert why in str(caught.value.why)


def test_files_that_are_no_trace(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        load(tmp_path / "none.jsonl")
    with pytest.raises(InvalidTrace, match="Cannot read"):
        load(tmp_path)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidTrace, match="Cannot read"):
        load(binary)
    binary.write_bytes(b"\n\n")
    with pytest.raises(InvalidTrace, match="holds no request"):
        load(binary)


def test_lines_may_stand_in_any_order() -> None:
    read = parse([json.dumps({**GOOD, "at": at}) for at in (3, 1, 2)], "t")
    assert [one.at for one in read] == [1, 2, 3]


@pytest.mark.parametrize("name", PROFILES)
def test_a_made_up_trace_is_repeatable_and_readable(name: str) -> None:
    first, second, other = (list(generate(profile(name), seconds=200, rate=5, seed=seed)) for seed in (1, 1, 2))
    assert first == second != other
    assert 850 < len(first) < 1150
    read = parse((json.dumps(fields) for fields in first), "made")
    assert all(0 <= one.at < 200 and one.output_tokens > 0 for one in read)
    mean = sum(one.input_tokens for one in read) / len(read)
    kind = PROFILES[name]
    if not kind.grows:
        assert mean == pytest.approx(kind.shared_tokens + kind.input_tokens, rel=0.05)
    assert len({fields["prefix_id"] for fields in first}) >= 12
    assert all(("affinity_key" in fields) is kind.keyed for fields in first)


def test_an_unknown_profile() -> None:
    with pytest.raises(UsageError, match="Choose among: realtime, agentic, chat"):
        profile("nope")


def test_the_example_is_what_the_command_makes() -> None:
    made = [json.dumps(fields) for fields in generate(profile("agentic"), seconds=60, rate=1, seed=0)]
    assert EXAMPLE.read_text().splitlines() == made


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_segments_are_the_whole_prompt(tokens: int, shared: int) -> None:
    one = arrival({**GOOD, "input_tokens": tokens, "shared_prefix_tokens": shared, "prefix_id": "a"}, 1)
    assert sum(count for _, count in one.segments) == tokens
