from __future__ import annotations

from pathlib import Path

import pytest

from outrider.errors import InvalidInput
from outrider.loadgen.profiles import Shape
from outrider.loadgen.traces import Arrival, read_trace, write_trace


def test_what_is_written_is_read_back_in_order(tmp_path: Path) -> None:
    late = Arrival(2.5, Shape(100, 20, 50, "tools", "user-7"))
    early = Arrival(0.0, Shape(10, 2))
    write_trace(tmp_path / "t.jsonl", [late, early])
    assert read_trace(tmp_path / "t.jsonl") == [early, late]


def test_further_fields_and_blank_lines_do_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"at": 1, "input_tokens": 5, "output_tokens": 6, "user": "x"}\n\n')
    assert read_trace(path) == [Arrival(1.0, Shape(5, 6))]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "no JSON"),
        ("[1]", "no JSON object"),
        ('{"input_tokens": 5, "output_tokens": 6}', "at is None"),
        ('{"at": -1, "input_tokens": 5, "output_tokens": 6}', "at is -1"),
        ('{"at": NaN, "input_tokens": 5, "output_tokens": 6}', "at is nan"),
        ('{"at": true, "input_tokens": 5, "output_tokens": 6}', "at is True"),
        ('{"at": 0, "input_tokens": 0, "output_tokens": 6}', "input_tokens is 0"),
        ('{"at": 0, "input_tokens": 5}', "output_tokens is None"),
        ('{"at": 0, "input_tokens": 5, "output_tokens": 6, "shared_prefix_tokens": 9}', "9 shared tokens of 5"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"at": 0, "input_tokens": 5, "output_tokens": 6}\n' + line + "\n")
    with pytest.raises(InvalidInput) as caught:
        read_trace(path)
    assert ":2 is no" in caught.value.what
    assert why in str(caught.value)
    assert caught.value.remedy


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe\x00"])
def test_a_file_without_requests(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidInput):
        read_trace(path)
    with pytest.raises(InvalidInput):
        read_trace(tmp_path / "absent.jsonl")
