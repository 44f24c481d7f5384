from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "traces" / "agentic.jsonl")


def test_every_policy_has_its_line(outrider: Run) -> None:
    done = outrider("sim", "route", "--trace", EXAMPLE, "--replicas", "8")
    assert done.code == 0
    first, header, *rows = done.out.splitlines()
    assert first.startswith("47 requests in ") and first.endswith("8 replicas, slack 4000 tokens")
    assert header.split()[:2] == ["policy", "hit"]
    assert [row.split()[0] for row in rows] == [
        "random",
        "round-robin",
        "least-requests",
        "two-choices",
        "least-tokens",
        "key",
        "prefix",
        "gateway",
    ]
    assert outrider("sim", "route", "--trace", EXAMPLE, "--replicas", "8").out == done.out


def test_json(outrider: Run) -> None:
    done = outrider("sim", "route", "--trace", EXAMPLE, "--policy", "prefix", "--ttft-penalty", "2", "--json")
    told = json.loads(done.out)
    assert told["scene"]["slack"] == 16_000
    [(name, outcome)] = told["policies"].items()
    assert name == "prefix" and outcome["requests"] == told["requests"] == 47
    assert 0 < outcome["hit_rate"] < 1 and outcome["wait"]["p50"] <= outcome["wait"]["p99"]


def test_a_trace_that_was_made_can_be_replayed(outrider: Run, tmp_path: Path) -> None:
    made = outrider("sim", "trace", "--profile", "chat", "--seconds", "20", "--rate", "4")
    path = tmp_path / "chat.jsonl"
    path.write_text(made.out)
    assert outrider("sim", "route", "--trace", str(path), "--policy", "gateway").code == 0
    listed = outrider("sim", "trace", "--profile", "chat", "--seconds", "20", "--rate", "4", "--json")
    assert json.loads(listed.out) == [json.loads(line) for line in made.out.splitlines()]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("route", "--trace", "/nowhere.jsonl"), 3, "No trace /nowhere.jsonl"),
        (("route", "--trace", "/dev/null"), 2, "/dev/null holds no request"),
        (("route", "--trace", EXAMPLE, "--policy", "luck"), 2, "There is no policy 'luck'"),
        (("route", "--trace", EXAMPLE, "--replicas", "0"), 2, "--replicas"),
        (("route", "--trace", EXAMPLE, "--prefill-rate", "nan"), 2, "--prefill-rate"),
        (("route", "--trace", EXAMPLE, "--ttft-penalty", "inf"), 2, "--ttft-penalty"),
        (("trace", "--rate", "nan"), 2, "--rate"),
        (("trace", "--profile", "luck"), 2, "There is no profile 'luck'"),
        (("trace", "--rate", "0"), 2, "--rate"),
    ],
)
def test_what_cannot_be_done(outrider: Run, words: tuple[str, ...], code: int, message: str) -> None:
    done = outrider("sim", *words)
    assert done.code == code and message in done.err and done.out == ""
