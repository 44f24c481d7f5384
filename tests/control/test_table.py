"""The routing table as the controller makes it and the gateway reads it."""

from __future__ import annotations

from typing import Any

from outrider.control.table import Route, build
from outrider.gateway.table import Stickiness, parse


def made(prefill_rate: float | None) -> dict[str, Any]:
    route = Route("small", "generate", 1_764_000_000_000, False, "ready", None, ((3, "d" * 64, 100),), 4, prefill_rate)
    return build([route], [], [], require_keys=False) | {"epoch": "e", "version": 1}


def test_what_a_replica_reads_a_second_decides_what_affinity_may_cost() -> None:
    endpoint = parse(made(192.2)).endpoints["small"]
    assert endpoint.slack == Stickiness(prefill_rate=192.2).slack == 96


def test_without_a_measurement_the_default_holds() -> None:
    assert parse(made(None)).endpoints["small"].slack == Stickiness().slack


def test_adapters_of_the_serving_revision_reach_the_gateway() -> None:
    route = Route("small", "generate", 1, False, "ready", None, ((3, "d" * 64, 100),), 4, adapters=("polite", "terse"))
    data = build([route], [], [], require_keys=False) | {"epoch": "e", "version": 1}
    assert parse(data).endpoints["small"].models == ("small", "small:polite", "small:terse")
