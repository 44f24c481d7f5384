from __future__ import annotations

import json

import pytest

from outrider.spec.home import Home
from tests.cli.conftest import Run
from tests.client.standin import Standin


def test_status_shows_both_processes(outrider: Run, controller: Standin) -> None:
    out = outrider("status").out
    for text in ("http://127.0.0.1:8081 (pid 1)", "http://127.0.0.1:8080", "connected", "no endpoints"):
        assert text in out
    assert json.loads(outrider("status", "--json").out)["gateway"]["pid"] == 2


def test_status_without_a_controller_says_how_to_start_one(outrider: Run, home: Home) -> None:
    done = outrider("status")
    assert done.code == 6
    assert "outrider up" in done.err


def test_down_where_nothing_runs(outrider: Run, home: Home) -> None:
    assert outrider("down").out == "nothing was running\n"
    assert json.loads(outrider("down", "--json").out) == {"stopped": []}


@pytest.mark.parametrize("value", ["0", "65536", "x", "-1", "²"])
def test_a_port_that_is_none_is_refused(outrider: Run, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    assert outrider("up", "--port", value).code == 2
    monkeypatch.setenv("OUTRIDER_PORT", value)
    done = outrider("endpoint", "create", "--model", "org/Small")
    assert done.code == 2
    assert "OUTRIDER_PORT" in done.err


def test_beyond_loopback_is_refused_without_keys(outrider: Run, home: Home) -> None:
    done = outrider("up", "--host", "0.0.0.0")
    assert done.code == 5
    assert "outrider key create" in done.err
