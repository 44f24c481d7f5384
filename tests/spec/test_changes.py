"""Two versions compared field by field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.spec.changes import Change, changes


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({}, {"a": 1}, [("a", "added", None, 1)]),
        ({"a": 1}, {}, [("a", "removed", 1, None)]),
        ({"a": 1}, {"a": 2}, [("a", "changed", 1, 2)]),
        ({"a": 1}, {"a": None}, [("a", "removed", 1, None)]),
        ({"a": None}, {}, []),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [("a.c", "changed", 2, 3)]),
        ({"a": {"b": 1}}, {"a": 1}, [("a", "added", None, 1), ("a.b", "removed", 1, None)]),
        ({"a": {}}, {}, []),
        ({"a": [1, 2]}, {"a": [2, 1]}, [("a", "changed", [1, 2], [2, 1])]),
        ({"a": 1}, {"a": True}, [("a", "changed", 1, True)]),
        ({"a": False}, {"a": 0}, [("a", "changed", False, 0)]),
        ({"a": ""}, {}, [("a", "removed", "", None)]),
    ],
)
def test_each_field_is_named_with_both_values(before: Any, after: Any, found: list[tuple[str, str, Any, Any]]) -> None:
    rows = [(change.path, change.kind, change.before, change.after) for change in changes(before, after)]
    assert rows == found
    assert all(
        type(a) is type(b) for row, other in zip(rows, found, strict=True) for a, b in zip(row, other, strict=True)
    )


def test_the_order_is_that_of_the_new_one_and_what_went_comes_last() -> None:
    assert [change.path for change in changes({"z": 1, "a": 1}, {"c": 1, "a": 2, "b": 1})] == ["c", "a", "b", "z"]


KEYS = st.sampled_from("abcd")
VALUES = st.sampled_from([None, True, False, 0, 1, 1.0, "", "x", [], [1, 2], [2, 1]])
DATA = st.dictionaries(KEYS, VALUES | st.dictionaries(KEYS, VALUES, max_size=3), max_size=4)


@given(DATA, DATA)
def test_there_and_back_are_mirror_images(before: dict[str, Any], after: dict[str, Any]) -> None:
    there, back = changes(before, after), changes(after, before)
    assert {c.path: (c.before, c.after) for c in there} == {c.path: (c.after, c.before) for c in back}
    assert all(c.before is not None or c.after is not None for c in there)


@given(DATA, DATA)
def test_the_changes_lead_from_one_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    flat = {change.path: change.after for change in changes({}, before)}
    for change in changes(before, after):
        assert flat.get(change.path) == change.before
        flat[change.path] = change.after
    assert changes({}, after) == tuple(
        Change(path=c.path, after=flat[c.path]) for c in changes({}, after) if flat[c.path] is not None
    )
    assert {path for path, value in flat.items() if value is not None} == {c.path for c in changes({}, after)}


@given(DATA)
def test_nothing_differs_from_itself(data: dict[str, Any]) -> None:
    assert changes(data, data) == ()
