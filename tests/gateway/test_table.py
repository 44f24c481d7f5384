"""The routing table: read, saved, read again; nothing half-understood comes into force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from outrider.gateway import table as tables
from outrider.gateway.table import EMPTY, InvalidTable, Limits
from tests.gateway.client import DIGEST, key, table


def test_parse_and_dump_round_trip() -> None:
    data = table(["http://127.0.0.1:1"], keys=[key("a", endpoints=["tiny"])], capacity=3)
    parsed = tables.parse(data)
    assert tables.parse(json.loads(parsed.dump())) == parsed
    endpoint = parsed.endpoints["tiny"]
    assert endpoint.replicas[0].capacity == 3
    assert endpoint.revision(2) is not None and endpoint.revisions[0].label == f"2-{DIGEST[:12]}"
    assert endpoint.revision(9) is None


def test_capacity_falls_back_to_the_endpoints() -> None:
    data = table(["http://127.0.0.1:1"], capacity=3)
    del data["replicas"][0]["capacity"]
    assert tables.parse(data).replicas["r0"].capacity == 3


def test_resolve_knows_adapters() -> None:
    parsed = tables.parse(table())
    data = table()
    data["endpoints"][0]["adapters"] = ["polite"]
    tuned = tables.parse(data)
    assert tuned.resolve("tiny") is tuned.resolve("tiny:polite") is tuned.endpoints["tiny"]
    assert tuned.resolve("tiny:Polite") is tuned.resolve("tiny:") is tuned.resolve("tiny:polite:x") is None
    assert parsed.resolve("tiny:polite") is None, "an endpoint without adapters has none of that name"
    assert tuned.endpoints["tiny"].models == ("tiny", "tiny:polite")
    assert parsed.resolve("Tiny") is None
    assert parsed.resolve("") is None


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [("tinny", "tiny"), ("TINY", "tiny"), ("org/Tiny", "tiny"), ("something-else", None), ("x" * 100_000, None)],
)
def test_nearest(asked: str, nearest: str | None) -> None:
    assert tables.parse(table()).nearest(asked) == nearest


def _without(field: str) -> dict[str, Any]:
    data = table()
    del data[field]
    return data


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        *[_without(field) for field in ("epoch", "version", "require_keys", "endpoints", "replicas", "keys")],
        {**table(), "version": "x"},
        {**table(), "endpoints": [{"name": "a"}]},
        {**table(), "keys": [{}]},
        table(["https://127.0.0.1:1"]),
        table(["http://127.0.0.1"]),
        table(["http://127.0.0.1:99999"]),
    ],
)
def test_what_is_no_table(data: object) -> None:
    with pytest.raises(InvalidTable):
        tables.parse(data)


def test_unknown_fields_are_ignored() -> None:
    assert tables.parse({**table(), "later": 1}).version == 1


def test_saved_and_loaded(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    assert tables.load(path) is EMPTY
    first, second = tables.parse(table()), tables.parse(table(version=2))
    tables.save(first, path)
    assert path.stat().st_mode & 0o777 == 0o600
    tables.save(second, path)
    assert tables.load(path) == second
    assert list(tmp_path.iterdir()) == [path]


def test_failed_save_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "directory"
    target.mkdir()
    with pytest.raises(OSError):
        tables.save(tables.parse(table()), target)
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_broken_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(InvalidTable):
        tables.load(path)


def test_limits_and_stickiness_are_read() -> None:
    limits = {"requests_per_minute": 5, "tokens_per_minute": None, "budget_tokens": 10, "newer": 1}
    stickiness = {"prefill_rate": 1000, "ttft_penalty": 0.25}
    parsed = tables.parse(table(keys=[key("a", limits=limits), key("b")], stickiness=stickiness))
    found = {one.name: one.limits for one in parsed.keys.values()}
    assert found == {"a": Limits(requests_per_minute=5, budget_tokens=10), "b": Limits()}
    assert found["a"].bounded and not found["b"].bounded
    assert parsed.endpoints["tiny"].slack == 250
    assert tables.parse(table()).endpoints["tiny"].slack == 4000


@pytest.mark.parametrize(
    "data",
    [
        table(keys=[key("a", limits={"requests_per_minute": 0})]),
        table(keys=[key("a", limits={"tokens_per_minute": "many"})]),
        table(stickiness={"prefill_rate": -1}),
        table(stickiness={"ttft_penalty": float("nan")}),
    ],
)
def test_limits_and_stickiness_that_make_no_sense(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidTable):
        tables.parse(data)


def test_replicas_are_grouped_by_revision_with_its_weight() -> None:
    data = table(["http://h:1", "http://h:2", "http://h:3"])
    data["endpoints"][0]["revisions"] = [{"number": 3, "digest": DIGEST, "weight": 5}]
    data["replicas"][1]["revision"] = 3
    groups = tables.parse(data).endpoints["tiny"].groups
    assert [(weight, [one.id for one in group]) for weight, group in groups] == [(0, ["r0", "r2"]), (5, ["r1"])]
