"""However a stream is cut into reads, the same goes out and the same is learnt."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway.streams import BodyObserver, EventObserver, Usage
from tests.gateway.standin import DONE, ROLE, USAGE, content, event

NULL_USAGE = event({"choices": [{"delta": {"content": "x"}}], "usage": None})
CONTINUOUS = event({"choices": [{"delta": {"content": "y"}}], "usage": {"prompt_tokens": 7, "completion_tokens": 1}})
TALKS_OF_USAGE = content('"choices": [], "usage": {"prompt_tokens": 99, "completion_tokens": 99}')
LINE_ENDS = ("\n", "\r\n", "\r")


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted({min(edge, len(data)) for edge in cuts}), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def run(pieces: list[bytes], *, drop: bool) -> tuple[bytes, Usage, float | None, float | None]:
    """First and last are given as the number of the byte at which they were seen."""
    observer = EventObserver(drop_usage=drop)
    out, seen = b"", 0
    for piece in pieces:
        seen += len(piece)
        out += observer.feed(piece, float(seen))
    return out + observer.held, observer.usage(), observer.first, observer.last


events = st.lists(
    st.one_of(
        st.sampled_from([ROLE, content("a"), content("ü€😀"), USAGE, DONE, NULL_USAGE, CONTINUOUS, TALKS_OF_USAGE]),
        st.sampled_from([b": keep-alive\n\n", b"event: x\ndata: 1\n\n", b"\n", b"\r\n", b"\r"]),
    ),
    max_size=12,
)
cuts = st.lists(st.integers(0, 2000), max_size=40)


@given(events, cuts, st.booleans())
def test_any_cut_gives_the_same_bytes_and_usage(parts: list[bytes], edges: list[int], drop: bool) -> None:
    data = b"".join(parts)
    whole = run([data], drop=drop)
    assert run(cut(data, edges), drop=drop)[:2] == whole[:2]
    single = run([data[i : i + 1] for i in range(len(data))], drop=drop)
    assert single[:2] == whole[:2]
    if not drop:
        assert whole[0] == data


@given(st.lists(st.sampled_from([ROLE, content("a"), USAGE, NULL_USAGE, DONE, b": hi\n\n"]), max_size=10))
def test_only_the_usage_event_is_dropped(parts: list[bytes]) -> None:
    out, usage, _, _ = run([b"".join(parts)], drop=True)
    assert out == b"".join(part for part in parts if part is not USAGE)
    assert usage == (Usage(7, 3) if USAGE in parts else Usage())


@given(st.lists(st.sampled_from([ROLE, content("a"), NULL_USAGE, DONE, b": hi\n\n"]), max_size=10), cuts)
def test_first_and_last_content(parts: list[bytes], edges: list[int]) -> None:
    data = b"".join(parts)
    ends, seen = [], 0
    for part in parts:
        seen += len(part)
        if part in (content("a"), NULL_USAGE):
            ends.append(seen)
    pieces = [data[i : i + 1] for i in range(len(data))]
    _, _, first, last = run(pieces, drop=False)
    assert (first, last) == ((ends[0], ends[-1]) if ends else (None, None))
    _, _, later, _ = run(cut(data, edges), drop=False)
    assert (later is None) == (first is None)
    if first is not None and later is not None:
        assert later >= first


@pytest.mark.parametrize("line_end", LINE_ENDS)
def test_line_ends_of_the_standard(line_end: str) -> None:
    data = (ROLE + content("a") + USAGE + DONE).replace(b"\n", line_end.encode())
    out, usage, _, _ = run(cut(data, list(range(0, len(data), 7))), drop=True)
    assert out == data.replace(USAGE.replace(b"\n", line_end.encode()), b"")
    assert usage == Usage(7, 3)


@pytest.mark.parametrize(
    ("data", "is_content"),
    [
        ({"choices": [{"delta": {"role": "assistant", "content": ""}}]}, False),
        ({"choices": [{"delta": {"content": None}}]}, False),
        ({"choices": [{"delta": {}, "finish_reason": "stop"}]}, False),
        ({"choices": [{"delta": {"content": " "}}]}, True),
        ({"choices": [{"delta": {"reasoning_content": "a"}}]}, True),
        ({"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}, True),
        ({"choices": [{"delta": {"tool_calls": []}}]}, False),
        ({"choices": [{"text": "a"}]}, True),
        ({"choices": [{"text": ""}]}, False),
        ({"type": "response.created", "response": {"output": []}}, False),
        ({"type": "response.output_text.delta", "delta": "a"}, True),
        ({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}, True),
        ({"type": "message_start", "message": {"content": [], "role": "assistant"}}, False),
        ({"choices": [{"delta": {"content": ""}, "logprobs": {"content": []}}]}, False),
    ],
)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_what_is_content(data: object, is_content: bool, separators: tuple[str, str]) -> None:
    observer = EventObserver(drop_usage=False)
    observer.feed(b"data: " + json.dumps(data, separators=separators).encode() + b"\n\n", 1.0)
    assert (observer.first is not None) is is_content


def test_usage_of_the_messages_api_is_split_over_two_events() -> None:
    start = event({"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}})
    delta = event({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 9}})
    assert run([start, content("a"), delta], drop=False)[1] == Usage(5, 9)


def test_usage_of_the_responses_api() -> None:
    done = event({"type": "response.completed", "response": {"usage": {"input_tokens": 5, "output_tokens": 9}}})
    assert run([done], drop=False)[1] == Usage(5, 9)


def test_long_event_is_not_held_whole() -> None:
    observer = EventObserver(drop_usage=True)
    pieces = [b"data: ", *[b"x" * 10_000] * 100, b"\n", b"\n", USAGE, DONE]
    out, most = b"", 0
    for piece in pieces:
        out += observer.feed(piece, 0.0)
        most = max(most, len(observer.held))
    assert out == b"".join(pieces[:-2]) + DONE
    assert most < 100_000
    assert observer.usage() == Usage(7, 3)


@given(st.integers(0, 20_000), st.booleans(), cuts)
def test_json_usage_from_either_end(padding: int, usage_first: bool, edges: list[int]) -> None:
    usage = {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    filler = {"choices": [{"text": 'a "usage": {"prompt_tokens": 9} ' + "x" * padding}]}
    data = json.dumps({**usage, **filler} if usage_first else {**filler, **usage}).encode()
    observer = BodyObserver()
    for piece in cut(data, edges):
        observer.feed(piece)
    assert observer.usage() == Usage(3, 4)


@pytest.mark.parametrize(
    "body", [b"", b"oops", b'{"usage": {', b'{"usage": null}', b'{"usage": {"prompt_tokens": "x"}}']
)
def test_json_without_usage(body: bytes) -> None:
    observer = BodyObserver()
    observer.feed(body)
    assert observer.usage() == Usage()
