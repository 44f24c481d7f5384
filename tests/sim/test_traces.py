"""How prompts look to replicas and to the gateway."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway import prompt
from outrider.gateway.prompt import EDGES
from outrider.loadgen.profiles import Shape
from outrider.loadgen.prompts import estimated_tokens
from outrider.loadgen.traces import Arrival
from outrider.sim.traces import simulated


def test_prompts_share_what_their_prefix_says() -> None:
    one, other = simulated([Arrival(0.0, Shape(3000, 100, 2000, "a", "s1"))] * 2)
    assert one.segments[0] == other.segments[0] and one.segments[0][1] == 2000
    assert one.segments[1] != other.segments[1] and one.segments[1][1] == 1000
    shared = sum(a == b for a, b in zip(one.blocks, other.blocks, strict=True))
    assert shared == sum(end <= 8000 for end in EDGES)
    assert len(one.blocks) == sum(end <= 12_000 for end in EDGES)
    assert one.affinity_key == "s1"


def test_messages_share_what_their_texts_share() -> None:
    system = {"role": "system", "content": "x" * 4000}
    said = [(system, {"role": "user", "content": letter * 400}) for letter in "ab"]
    one, other = simulated(Arrival(0.0, Shape(estimated_tokens(messages), 1), messages) for messages in said)
    assert 1100 <= one.input_tokens <= 1110
    same = [a[1] for a, b in zip(one.segments, other.segments, strict=True) if a == b]
    assert 850 < sum(same) <= 1002
    assert sum(tokens for _, tokens in one.segments) == one.input_tokens


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_segments_are_the_whole_prompt(tokens: int, shared: int) -> None:
    [one] = simulated([Arrival(0.0, Shape(tokens, 1, min(shared, tokens), "a"))])
    assert sum(count for _, count in one.segments) == tokens


parts = st.text() | st.none() | st.fixed_dictionaries({"type": st.just("text"), "text": st.text() | st.integers()})
contents = (
    st.text() | st.none() | st.integers() | st.lists(parts | st.just({"type": "image_url"})) | st.just({"text": "a"})
)
messages = st.fixed_dictionaries({"role": st.sampled_from(["user", "système", None])}, optional={"content": contents})


@given(st.lists(messages, min_size=1))
def test_a_trace_estimates_messages_as_the_gateway_does(said: list[dict[str, Any]]) -> None:
    assert estimated_tokens(said) == prompt.read({"model": "m", "messages": said}).input_tokens
