"""The gateway's benchmark runs, counts what it says it counts, and its page shows its result."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.gateway import client, page, report
from benchmarks.gateway.__main__ import loads
from benchmarks.gateway.client import Load
from benchmarks.gateway.process import free_port, listening, started
from benchmarks.gateway.report import Round

ROOT = Path(__file__).parents[2]
RATIOS = {
    *(f"cpu_us_per_request_{kind}_outrider_over_smg" for kind in ("json", "sse")),
    *(
        f"added_{q}_{kind}_c{concurrency}_outrider_over_smg"
        for q in ("p50", "p99")
        for kind in ("json", "sse")
        for concurrency in (1, 16, 64)
    ),
    *(f"rps_{kind}_c{concurrency}_outrider_over_smg" for kind in ("json", "sse") for concurrency in (16, 64)),
    "sse_first_byte_c1_ms_above_haproxy",
    "added_p50_json_c1_litellm_over_outrider",
}


def test_a_small_run_measures_the_direct_path_and_outrider(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    command = [sys.executable, "-m", "benchmarks.gateway", "--quick", "--peers", "direct", "outrider", "smg"]
    command += ["--loads", "json_c1", "sse_c16", "json_64k_c1", "json_open", "--out", str(out)]
    environment = {"PATH": "/usr/bin:/bin", "OUTRIDER_BENCH_PEERS": str(tmp_path / "no-peers")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert set(result) >= {"machine", "versions", "rounds", "rows", "ratios", "skipped"}
    assert result["rounds"] == 1
    assert "not installed" in result["skipped"]["smg"]
    rows = {(row["peer"], row["load"]): row for row in result["rows"]}
    assert len(rows) == 8
    for (peer, _), row in rows.items():
        assert row["failures"] == 0
        assert row["requests_per_second"] > 0
        assert 0 < row["first_byte_p50_ms"] <= row["total_p50_ms"] <= row["total_p99_ms"]
        assert (row["cpu_us_per_request"] is None) == (peer == "direct")


def test_the_client_sees_streams_and_failures(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "log"
    command = [sys.executable, "-m", "benchmarks.gateway.engine", str(port)]
    with started(command, log, core=None) as engine:
        listening(engine, port, log)
        paced = asyncio.run(client.measure(Load("", True, 4, 1_800, 2), port, "key", warm_up=0.0, seconds=0.6))
    assert paced.failures == 0 and paced.answered >= 2
    assert all(total - first >= 63 * 0.004 * 0.9 for first, total in zip(paced.first, paced.total, strict=True))
    with pytest.raises(OSError):
        asyncio.run(client.measure(Load("", False, 0, 1_800, 1), port, "key", warm_up=0.0, seconds=0.1))


@pytest.mark.parametrize("size", [1_800, 64_000])
def test_requests_are_as_large_as_they_say(size: int) -> None:
    head, _, body = Load("", True, 4, size, 1).request("host", "key").partition(b"\r\n\r\n")
    assert abs(len(body) - size) <= 2
    assert b"content-length: %d" % len(body) in head
    assert json.loads(body)["seed"] == 4


def rounds(peers: dict[str, float]) -> report.Rounds:
    """Three rounds in which every figure of a peer is its own number, times 1, 2, 4."""
    return {
        (peer, load.name): [Round._make([*[number * times] * 7, 0]) for times in (1.0, 2.0, 4.0)]
        for peer, number in peers.items()
        for load in loads()
    }


def result(found: report.Rounds) -> dict[str, Any]:
    return report.result(found, versions={}, skipped={}, load_average=(0, 0, 0), pinned=True, seconds=1.0)


def test_ratios_are_those_that_are_wanted_each_taken_inside_a_round() -> None:
    peers = {"direct": 1.0, "outrider": 3.0, "smg": 5.0, "haproxy": 2.0, "litellm": 101.0}
    data = result(rounds(peers))
    assert set(data["ratios"]) == RATIOS
    assert data["ratios"]["cpu_us_per_request_json_outrider_over_smg"] == 0.6
    assert data["ratios"]["added_p99_sse_c64_outrider_over_smg"] == 0.5
    assert data["ratios"]["added_p50_json_c1_litellm_over_outrider"] == 50
    assert data["ratios"]["sse_first_byte_c1_ms_above_haproxy"] == 2.0
    assert data["ratio_spread"]["sse_first_byte_c1_ms_above_haproxy"] == (1.0, 4.0)


def test_ratios_with_absent_peers_are_left_out() -> None:
    assert result(rounds({"direct": 1.0, "outrider": 3.0}))["ratios"] == {}


@pytest.mark.parametrize(
    ("ratio", "value", "held"),
    [
        ("cpu_us_per_request_json_outrider_over_smg", 1.01, False),
        ("added_p99_sse_c1_outrider_over_smg", 1.2, True),
        ("rps_json_c16_outrider_over_smg", 0.9, False),
        ("sse_first_byte_c1_ms_above_haproxy", 0.19, True),
        ("added_p50_json_c1_litellm_over_outrider", 19.0, False),
    ],
)
def test_what_is_missed_is_called_missed(ratio: str, value: float, held: bool) -> None:
    assert page.held(ratio, value) is held


def test_the_page_shows_the_latest_result() -> None:
    text = page.PAGE.read_text()
    assert page.current(text) == text
