"""The allow-list of paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.gateway.routes import INFERENCE, Place, match
from tests.gateway.client import get, post, serving, table
from tests.gateway.standin import Standin


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


PATHS = [line.split()[1] for line in Path(__file__).with_name("administrative-paths.txt").read_text().splitlines()]
"""Of vLLM, SGLang and llama.cpp: what changes or shows an engine, and their own APIs that take no key or model."""


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "prefix", ["", "/v1", "/v1/chat/completions/..", "/e/tiny/../..", "/", "/v1/chat/completions?x="]
)
def test_no_engine_is_administered_through_the_gateway(prefix: str, path: str) -> None:
    """Whatever the spelling: nothing arrives at the engine but the inference path itself."""
    route = match(prefix + path)
    if prefix.endswith("?x="):
        assert route is not None and route.target == "/v1/chat/completions"
    else:
        assert route is None or route.place is not Place.INFERENCE


async def test_administrative_paths_over_the_wire() -> None:
    async with Standin() as engine, serving(table([engine])) as served, served.wire() as wire:
        for path in PATHS:
            for request in (get(path), post(path, {"model": "tiny"}), post(f"/e/tiny{path}", {"model": "tiny"})):
                await wire.send(request)
                assert (await wire.reply()).status == 404
        assert not engine.asked
