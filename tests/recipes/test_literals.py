"""A literal evaluates to the value and to nothing else."""

from __future__ import annotations

import ast
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.recipes.literals import WIDTH, literal

PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple)
    | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(VALUES)
def test_it_evaluates_to_the_value(value: Any) -> None:
    again = ast.literal_eval(literal(value))
    assert again == value
    assert repr(again) == repr(value)


@given(VALUES)
def test_wide_containers_are_opened(value: Any) -> None:
    assert "\n" in literal([value, "x" * WIDTH])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_has_no_literal_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="no literal"):
        literal(value)


def test_other_types_are_refused() -> None:
    class Sly(str):
        def __repr__(self) -> str:
            return "__import__('os')"

    for value in (Sly("x"), object(), b"x", {1, 2}, {1: 2}):
        with pytest.raises(TypeError):
            literal(value)
