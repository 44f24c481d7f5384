from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.errors import InvalidTrace, NotFound
from outrider.loadgen.profiles import Shape
from outrider.loadgen.traces import Arrival, parse_trace, read_trace, write_trace

GOOD: dict[str, Any] = {"at": 0, "input_tokens": 3000, "output_tokens": 100}
HELLO = {"role": "user", "content": "hello " * 20}


def line(without: str = "", **changed: Any) -> str:
    return json.dumps({name: value for name, value in {**GOOD, **changed}.items() if name != without})


def test_lines_may_stand_in_any_order() -> None:
    assert [one.at for one in parse_trace([line(at=at) for at in (3, 1, 2)], "t")] == [1, 2, 3]


counts = st.integers(1, 10**9)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
shapes = st.builds(
    lambda own, output, shared, prefix, key: Shape(shared + own, output, shared, prefix if shared else None, key),
    st.integers(1, 10**6),
    counts,
    st.integers(0, 10**6),
    texts,
    st.none() | texts,
)
times = st.integers(0, 10**12).map(lambda microseconds: round(microseconds / 1e6, 6))
spoken = st.lists(st.fixed_dictionaries({"role": texts, "content": st.text()}), min_size=1).map(tuple)


@given(
    st.lists(
        st.builds(Arrival, times, shapes, st.none()) | st.builds(Arrival, times, st.just(Shape(9, 1)), spoken),
        min_size=1,
    )
)
def test_what_is_written_is_read_back_in_order(arrivals: list[Arrival]) -> None:
    file = io.StringIO()
    write_trace(file, arrivals)
    file.seek(0)
    assert parse_trace(file, "t") == sorted(arrivals, key=lambda one: one.at)


def test_further_fields_blank_lines_and_empty_texts_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(line(user="x", prefix_id="", affinity_key=None) + "\n\n")
    assert read_trace(path) == [Arrival(0.0, Shape(3000, 100))]


def test_a_number_names_as_its_digits_do() -> None:
    [read] = parse_trace([line(shared_prefix_tokens=5, prefix_id=7, affinity_key=8)], "t")
    assert (read.shape.prefix_id, read.shape.affinity_key) == ("7", "8")


def test_messages_are_kept_and_their_length_is_estimated_where_it_is_not_said(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    separated = {"role": "user", "content": "\u2028 " * 20}  # no end of a line in JSON
    lines = [line("input_tokens", messages=[HELLO, separated]), line(at=1, messages=[HELLO])]
    path.write_text("\n".join(lines).replace("\\u2028", "\u2028"), encoding="utf-8")
    estimated, said = read_trace(path)
    assert estimated.messages == (HELLO, separated) and said.messages == (HELLO,)
    assert estimated.shape.input_tokens == (2 * len("<user>") + 6 * 20 + 4 * 20) // 4
    assert said.shape.input_tokens == 3000


def test_messages_share_what_their_texts_share_and_not_what_is_said_beside_them() -> None:
    [read] = parse_trace([line(messages=[HELLO], shared_prefix_tokens=9000, prefix_id="a", affinity_key="k")], "t")
    assert read.shape == Shape(3000, 100, affinity_key="k")


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("nonsense", "Expecting value"),
        ("{", "Expecting property name"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "recursion"),
        (line("at"), "at: missing"),
        (line(at=-1), "at: -1 is no number of seconds"),
        (line(at="soon"), "at: 'soon'"),
        (line(at=True), "at: True"),
        (line(at=float("nan")), "at: nan"),
        (line(at=float("inf")), "at: inf"),
        (line(at=10**400), "at: 1000"),
        (line("input_tokens"), "input_tokens: missing"),
        (line(input_tokens=0), "input_tokens: 0 is no whole number from 1"),
        (line(input_tokens=10**12), "input_tokens: 1000000000000"),
        (line("output_tokens"), "output_tokens: missing"),
        (line(output_tokens=1.5), "output_tokens: 1.5"),
        (line(output_tokens=True), "output_tokens: True"),
        (line(shared_prefix_tokens=5), "prefix_id: missing beside"),
        (line(shared_prefix_tokens=-5, prefix_id="a"), "shared_prefix_tokens: -5"),
        (line(shared_prefix_tokens=3001, prefix_id="a"), "3001 of 3000"),
        (line(shared_prefix_tokens=5, prefix_id=["a"]), "prefix_id: ['a'] is no line of text"),
        (line(affinity_key="a\r\nHost: b"), "affinity_key: 'a\\r\\nHost: b'"),
        (line(affinity_key="\ud800"), "affinity_key: "),
        (line(messages="hello"), "messages: not a list"),
        (line(messages=[]), "messages: not a list"),
        (line(messages=["hello"]), "messages: not a list"),
    ],
)
def test_a_bad_line_is_named(bad: str, why: str) -> None:
    with pytest.raises(InvalidTrace) as caught:
        parse_trace([line(), "", bad], "trace.jsonl")
    assert caught.value.what == "Line 3 of trace.jsonl is no request"
    assert why in str(caught.value.why)
    assert caught.value.remedy


def test_files_that_are_no_trace(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="No trace"):
        read_trace(tmp_path / "none.jsonl")
    with pytest.raises(InvalidTrace, match="cannot be read"):
        read_trace(tmp_path)
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidTrace, match="cannot be read"):
        read_trace(path)
    for nothing in (b"", b"\n\n"):
        path.write_bytes(nothing)
        with pytest.raises(InvalidTrace, match="holds no request"):
            read_trace(path)
