from __future__ import annotations

import pytest

from outrider.cli.text import clean, clean_lines, size, span


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("a\nb\r\tc", "a b  c"),
        ("\u202eevil", " evil"),
        ("\x9b31mx", " 31mx"),
        ("[bold]x[/nope]", "[bold]x[/nope]"),
        ("é 日本", "é 日本"),
    ],
)
def test_nothing_moves_the_cursor(hostile: str, shown: str) -> None:
    assert clean(hostile) == shown


def test_line_breaks_stay_where_there_are_lines() -> None:
    assert clean_lines("a\x1b[2J\nb\n") == "a\nb\n"


def test_quantities() -> None:
    assert [size(n) for n in (0, 999, 1_500, 98_362_432, 2.5e9)] == ["0 B", "999 B", "1.5 kB", "98.4 MB", "2.50 GB"]
    assert [span(s) for s in (0.04, 59.9, 60, 3_725)] == ["0.0 s", "59.9 s", "1 min 0 s", "1 h 2 min"]
