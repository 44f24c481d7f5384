"""Hashes of the beginning of a prompt: equal exactly where prompts agree, bounded for any length."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway import prompt
from outrider.gateway.prompt import EDGES, REACH, chain


@given(st.integers(0, 9000), st.integers(0, 9000))
def test_two_texts_share_the_blocks_before_they_part(same: int, length: int) -> None:
    one, other = "x" * same + "a" * length, "x" * same + "b" * length
    shared = sum(a == b for a, b in zip(chain(one, "m"), chain(other, "m"), strict=True))
    assert shared == sum(edge <= same for edge in EDGES)


def test_edges_are_few_and_resolve_an_eighth() -> None:
    assert len(EDGES) == 52 and EDGES[-1] <= REACH
    assert all(b - a <= max(256, a / 8) for a, b in itertools.pairwise(EDGES))


def test_what_is_beyond_reach_is_counted_and_not_hashed() -> None:
    read = prompt.read({"model": "m", "prompt": "x" * 10_000_000})
    assert len(read.blocks) == len(EDGES)
    assert read.input_tokens == 2_500_000


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "é" * 600}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "é" * 600}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "é" * 600}]}]},
        {"input": "é" * 600},
        {"prompt": "é" * 600},
        {"prompt": ["é" * 600]},
        {"system": "é" * 600, "messages": []},
        {"instructions": "é" * 600, "input": ""},
    ],
)
def test_every_api_is_read(body: dict[str, Any]) -> None:
    read = prompt.read({"model": "m", **body})
    assert len(read.blocks) == 2
    assert 300 <= read.input_tokens <= 304


def test_token_ids_are_a_prompt_too() -> None:
    one = prompt.read({"model": "m", "prompt": list(range(1000))})
    assert len(one.blocks) >= 8 and 900 < one.input_tokens < 1100


def test_an_image_ends_what_is_hashed() -> None:
    def body(image: str) -> dict[str, Any]:
        parts = [{"type": "text", "text": "x" * 300}, {"type": "image_url", "image_url": {"url": image}}]
        return {
            "model": "m",
            "messages": [{"role": "user", "content": [*parts, {"type": "text", "text": image * 900}]}],
        }

    assert prompt.read(body("a")).blocks == prompt.read(body("b")).blocks != ()
    assert prompt.read(body("a")).input_tokens > 250


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda children: (
        st.lists(children, max_size=4)
        | st.dictionaries(st.sampled_from(["role", "content", "text", "type"]), children, max_size=4)
    ),
    max_leaves=20,
)


@given(
    st.dictionaries(st.sampled_from(["model", "messages", "input", "prompt", "system", "instructions"]), json_values)
)
def test_any_body_can_be_read(body: dict[str, Any]) -> None:
    read = prompt.read(body)
    assert read.input_tokens >= 1
