"""Waiting for several endpoints at once: each has its own end, and a row of its own."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console
from rich.spinner import Spinner

from outrider.cli.several import drawn, wait_all
from outrider.cli.watch import Watch
from outrider.client.http import Client
from outrider.errors import ControllerUnreachable, EndpointNotFound, OutriderError
from outrider.spec.home import Home
from tests.cli.api import READY, Look, look
from tests.client.standin import Asked, serving


def _answers(by_name: dict[str, list[Look | OutriderError]]) -> Callable[[Asked], Any]:
    """Each endpoint goes through its looks, the last again and again."""

    def respond(asked: Asked) -> Any:
        name = asked.path.rsplit("/", 1)[-1]
        if name == "events":
            return {"items": []}
        looks = by_name[name]
        found = looks.pop(0) if len(looks) > 1 else looks[0]
        if isinstance(found, OutriderError):
            raise found
        return found | {"name": name}

    return respond


def _wait(home: Home, by_name: dict[str, list[Look | OutriderError]], timeout: float = 60.0) -> dict[str, Any]:
    views = [READY | {"name": name} for name in by_name]
    with serving(_answers(by_name), home.api_socket), Client() as client:
        return wait_all(client, views, timeout=timeout, quiet=True)


def test_each_ends_in_its_own_way(home: Home) -> None:
    found = _wait(
        home,
        {
            "slow": [look("preparing"), look("warming"), READY],
            "broken": [look(status="failed", state="failed", reason="it died")],
            "gone": [look("starting"), EndpointNotFound("No endpoint 'gone'")],
            "stopped": [look("starting"), look(desired="stopped")],
        },
    )
    assert found["slow"]["state"] == "ready"
    codes = {name: error.code for name, error in found.items() if isinstance(error, OutriderError)}
    assert codes == {"broken": "replica_failed", "gone": "endpoint_not_found", "stopped": "conflict"}


def test_time_is_up_for_those_that_are_not_ready(home: Home) -> None:
    found = _wait(home, {"slow": [look("warming")], "quick": [READY]}, timeout=0.0)
    assert found["quick"]["state"] == "ready"
    assert found["slow"].code == "start_timeout"


def test_a_controller_that_goes_away_ends_all(home: Home) -> None:
    with pytest.raises(ControllerUnreachable):
        _wait(home, {"one": [look("warming"), ControllerUnreachable("gone")]})


def test_nothing_to_wait_for(home: Home) -> None:
    assert _wait(home, {}) == {}


def test_a_row_for_each() -> None:
    ready = Watch("chat", 1, 0.0).see(look("warming"), 1.0).see(READY, 2.0)
    busy = Watch("search", 1, 0.0).see(look("preparing", done=1), 1.0).see(look("preparing", done=49_181_216), 2.0)
    broken = Watch("drafts", 1, 0.0).see(look("starting"), 1.0)
    broken = broken.see(look(status="failed", state="failed"), 3.0)
    fresh = Watch("new", 1, 0.0)
    console = Console(file=io.StringIO(), width=100)
    watches = {watch.endpoint: watch for watch in (ready, busy, broken, fresh)}
    with console.capture() as captured:
        console.print(drawn(watches, 9.0, Spinner("dots")))
    rows = [" ".join(line.split()) for line in captured.get().splitlines()]
    assert rows[0] == "✓ chat ready 2.0 s"
    assert "search preparing 9.0 s" in rows[1] and "49.2 MB / 98.4 MB" in rows[1]
    assert rows[2] == "✗ drafts starting 3.0 s"
    assert rows[3].endswith("new pending 9.0 s")
