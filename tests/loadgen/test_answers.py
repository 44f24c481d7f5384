from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.loadgen.answers import Answer
from outrider.loadgen.measurement import measured
from outrider.loadgen.profiles import Shape


def event(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def content(text: str) -> bytes:
    return event(choices=[{"delta": {"content": text}}])


STREAM = (
    event(choices=[{"delta": {"role": "assistant", "content": ""}}])
    + b": keep-alive\n\n"
    + content("one")
    + content("two")
    + event(
        choices=[], usage={"prompt_tokens": 9, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}
    )
    + b"data: [DONE]\n\n"
)


def test_itl_divides_by_tokens_and_the_gap_does_not() -> None:
    answer = Answer()
    answer.feed(event(choices=[{"delta": {"role": "assistant"}}]), 0.1)
    for index in range(5):  # five events of four tokens each, as a drafter of block 4 makes them
        answer.feed(content("four words are here"), 1.0 + index * 0.4)
    answer.feed(event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 20}) + b"data: [DONE]\n\n", 2.7)
    done = measured(target=0, number=0, shape=Shape(3, 20), scheduled=0.5, sent=0.6, ended=2.7, status=200,
                    answer=answer, error=None)  # fmt: skip
    assert done.ttft == pytest.approx(0.5)
    assert done.itl == pytest.approx(1.6 / 19)
    assert done.event_gap == pytest.approx(0.4)
    assert done.e2e == pytest.approx(2.2)
    assert done.ok


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=12), st.booleans())
def test_however_the_bytes_are_cut(cuts: list[int], crlf: bool) -> None:
    stream = STREAM.replace(b"\n", b"\r\n") if crlf else STREAM
    answer = Answer()
    bounds = [0, *sorted(cuts), len(stream)]
    for low, high in itertools.pairwise(bounds):
        answer.feed(stream[low:high], float(high))
    assert (answer.events, answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens) == (2, 9, 7, 4)
    assert answer.done
    assert answer.error is None


@pytest.mark.parametrize(
    "delta", [{"content": "x"}, {"reasoning_content": "x"}, {"reasoning": "x"}, {"tool_calls": [{"index": 0}]}]
)
def test_what_counts_as_content(delta: dict[str, Any]) -> None:
    answer = Answer()
    answer.feed(event(choices=[{"delta": delta}]), 1.0)
    assert answer.first == 1.0


def test_a_completion_has_text() -> None:
    answer = Answer()
    answer.feed(event(choices=[{"text": "x"}]), 1.0)
    assert answer.events == 1


@pytest.mark.parametrize(
    ("stream", "error"),
    [
        (content("x") + event(error={"message": "the replica died", "code": 502}), "the replica died"),
        (content("x"), "the stream ended before [DONE]"),
        (b"data: [DONE]\n\n", "the answer held no content"),
        (content("x") + b"data: {\n\n", "an event is no JSON"),
    ],
)
def test_what_ends_badly_is_an_error_and_no_measurement(stream: bytes, error: str) -> None:
    answer = Answer()
    answer.feed(stream, 1.0)
    done = measured(target=0, number=0, shape=Shape(3, 20), scheduled=0.0, sent=0.0, ended=2.0, status=200,
                    answer=answer, error=None)  # fmt: skip
    assert done.error == error
    assert (done.ttft, done.itl, done.e2e, done.event_gap) == (None, None, None, None)
