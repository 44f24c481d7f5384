"""One parse of a body, whichever API it was written for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway.request import InvalidBody, parse, with_usage


def facts(**body: Any) -> Any:
    return parse(json.dumps({"model": "tiny", **body}).encode())[0]


def test_defaults() -> None:
    one = facts()
    assert (one.model, one.stream, one.max_tokens, one.include_usage, one.usage_slot) == (
        "tiny",
        False,
        None,
        False,
        True,
    )


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_max_tokens(name: str) -> None:
    assert facts(**{name: 5}).max_tokens == 5
    assert facts(**{name: True}).max_tokens is None


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": "привет"}]},
        {"messages": [{"role": "system", "content": "hello"}, {"role": "user", "content": "привет"}]},
        {"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "привет"}]}]},
        {"prompt": "привет"},
        {"prompt": ["hello", "привет"]},
        {"input": "привет"},
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "привет"}]}]},
    ],
)
def test_script_is_read_from_the_end_of_any_prompt(body: dict[str, Any]) -> None:
    assert facts(**body).slices.script == "cyrillic"


def test_the_prompt_is_read() -> None:
    one = facts(messages=[{"role": "system", "content": "x" * 1100}])
    assert len(one.prompt.blocks) == 4
    assert one.prompt.input_tokens == (1100 + len("\x00system\x01")) // 4


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
fields = st.sampled_from(
    ["messages", "input", "prompt", "system", "tools", "response_format", "temperature", "stream", "stream_options",
     "thinking", "reasoning", "chat_template_kwargs", "text", "max_tokens"]
)  # fmt: skip


@given(st.dictionaries(fields, json_values), st.text(min_size=1))
def test_hostile_values_are_read_as_absent(body: dict[str, Any], model: str) -> None:
    data = json.dumps({**body, "model": model}).encode()
    one, parsed = parse(data)
    assert one.model == model
    asked = json.loads(with_usage(data, one, parsed))
    assert asked["stream_options"]["include_usage"] is True
    assert json.dumps({name: value for name, value in asked.items() if name != "stream_options"}) == json.dumps(
        {name: value for name, value in {**body, "model": model}.items() if name != "stream_options"}
    )


@given(st.binary(max_size=200))
def test_any_bytes_are_facts_or_an_error(data: bytes) -> None:
    try:
        one, _ = parse(data)
    except InvalidBody as error:
        assert error.status == 400
    else:
        assert one.model


@pytest.mark.parametrize(
    "spelling", [b'{"model":"a"}', b' {"model":"a"\n}\r\n ', b'{"model":"a","stream_options":null}']
)
def test_usage_is_added(spelling: bytes) -> None:
    one, data = parse(spelling)
    assert json.loads(with_usage(spelling, one, data)) == {"model": "a", "stream_options": {"include_usage": True}}


def test_usage_keeps_other_stream_options() -> None:
    body = b'{"model":"a","stream_options":{"include_usage":false,"chunk_include_usage":true}}'
    one, data = parse(body)
    assert not one.include_usage
    options = json.loads(with_usage(body, one, data))["stream_options"]
    assert options == {"include_usage": True, "chunk_include_usage": True}
