"""The routing table as the controller makes it and the gateway reads it."""

from __future__ import annotations

from typing import Any

from outrider.control.table import Route, build
from outrider.gateway.table import Stickiness, parse


def made(prefill_rate: float | None, ttft_penalty: float | None = None) -> dict[str, Any]:
    revisions = ((3, "d" * 64, 100),)
    when = 1_764_000_000_000
    route = Route("small", "generate", when, False, "ready", None, revisions, 4, prefill_rate, ttft_penalty)
    return build([route], [], [], require_keys=False) | {"epoch": "e", "version": 1}


def test_what_a_replica_reads_a_second_decides_what_affinity_may_cost() -> None:
    endpoint = parse(made(192.2)).endpoints["small"]
    assert endpoint.slack == Stickiness(prefill_rate=192.2).slack == 96


def test_without_a_measurement_the_default_holds() -> None:
    assert parse(made(None)).endpoints["small"].slack == Stickiness().slack


def test_what_the_owner_lets_a_request_wait_is_counted() -> None:
    assert parse(made(200, 2.0)).endpoints["small"].slack == 400
    assert parse(made(None, 0.0)).endpoints["small"].slack == 0
