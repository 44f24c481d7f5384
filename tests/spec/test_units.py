"""Quantities as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.spec.units import parse_size, parse_span


@pytest.mark.parametrize(
    ("text", "size"), [("2GiB", 2**31), ("512 MiB", 2**29), ("1.5kB", 1500), ("7", 7), (" 1 gb ", 10**9), (12, 12)]
)
def test_sizes(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", 600), ("30s", 30), ("300ms", 0.3), ("1h30m", 5400), ("1.5h", 5400), ("2", 2), (5, 5)]
)
def test_durations(text: str | int, seconds: float) -> None:
    assert parse_span(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "1 elephant", "1e3", "0x10", "١GiB", True, "9" * 30])
def test_bad_sizes(text: str | bool) -> None:
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@pytest.mark.parametrize("text", ["", "s", "-1s", "10:30", "1m1h", "nan", "inf", False])
def test_bad_durations(text: str | bool) -> None:
    with pytest.raises(ValueError, match="duration"):
        parse_span(text)


@given(st.integers(0, 10**15), st.sampled_from(["KiB", "MiB", "GiB"]))
def test_whole_sizes_are_exact(number: int, unit: str) -> None:
    assert parse_size(f"{number}{unit}") == number * {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit]
