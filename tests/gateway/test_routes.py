"""The allow-list of paths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway.routes import INFERENCE, Place, match


@pytest.mark.parametrize("path", sorted(INFERENCE))
def test_inference_paths(path: str) -> None:
    for target in (path, f"{path}?beta=true"):
        route = match(target)
        assert route is not None
        assert (route.place, route.target) == (Place.INFERENCE, path)


@pytest.mark.parametrize(
    ("target", "name", "onward"),
    [
        ("/e/a", "a", "/"),
        ("/e/a/", "a", "/"),
        ("/e/a?b", "a", "/?b"),
        ("/e/a/b/../c?d=/e/", "a", "/b/../c?d=/e/"),
        ("/e/a//b", "a", "//b"),
    ],
)
def test_custom_paths(target: str, name: str, onward: str) -> None:
    route = match(target)
    assert route is not None
    assert (route.place, route.name, route.target) == (Place.CUSTOM, name, onward)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30))
def test_nothing_else_reaches_a_replica(path: str) -> None:
    route = match(f"/{path}")
    if route is not None and route.place is Place.INFERENCE:
        assert f"/{path}".partition("?")[0] in INFERENCE
