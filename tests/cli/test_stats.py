"""``outrider endpoint stats`` against a small controller on a real socket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

from outrider.cli import stats
from outrider.cli.text import clean_lines
from outrider.engines.normalise import EngineMetrics, vllm
from outrider.errors import EndpointNotFound
from outrider.telemetry.recent import Recent, Standing
from tests.cli.api import Api
from tests.cli.conftest import Run
from tests.client.standin import Standin
from tests.engines.test_normalise import VLLM_PAGE
from tests.telemetry.test_window import NOW, record

PATH = "GET /endpoints/small/stats"


def view(*, speculates: bool = False, connected: bool = True) -> dict[str, Any]:
    """As the API makes it."""
    recent = Recent(NOW - 10_000)
    recent.take([record(endpoint="small", ttft=0.25, itl=0.004, e2e=1.5)] * 4, NOW)
    if speculates:
        zero = EngineMetrics(generated_tokens=0, prompt_tokens=0, cached_tokens=0, drafts=0, accepted_tokens=0)
        recent.read("r1", zero, NOW - 5_000)
        recent.read("r1", vllm(VLLM_PAGE), NOW)
    replica = Standing("r1", 1, "ready", True, 1)
    return recent.stats("small", [replica], held=2, connected=connected, now=NOW)


@pytest.fixture
def answers(api: Api, controller: Standin) -> list[Any]:
    """What the controller answers, one after another; then the endpoint is gone."""
    given: list[Any] = []

    def respond(_: Any) -> Any:
        if not given:
            raise EndpointNotFound("No endpoint 'small'", remedy="See them with: outrider endpoint list")
        return given.pop(0)

    api.answers[PATH] = respond
    return given


def test_tables_for_people(outrider: Run, answers: list[Any]) -> None:
    answers.append(view())
    done = outrider("endpoint", "stats", "small")
    assert (done.code, done.err) == (0, "")
    head, _, columns, every, one, _, names, load, _ = done.out.splitlines()[:9]
    assert head == "small, last 10 s: 4 requests ended, 0 failed, 0 refused; now 1 in flight, 2 held"
    assert " ".join(columns.split()) == "replica TTFT p50 p95 p99 ITL p50 p95 p99 E2E p50 p95 p99"
    assert every.split()[0] == "all" and one.split()[0] == "r1"
    assert every.split()[1:] == one.split()[1:]
    assert [word for word in every.split() if word in ("ms", "s")] == ["ms"] * 6 + ["s"] * 3
    assert names.split()[1:4] == ["requests/s", "output", "tok/s"]
    assert load.split() == ["all", "0.40", "1.20", "2.80", "–", "–", "–", "–", "–"]
    assert "accepted at" not in done.out and "in the engine" not in done.out


def test_an_engine_that_says_more_is_shown_with_it(outrider: Run, answers: list[Any]) -> None:
    answers.append(view(speculates=True))
    out = outrider("endpoint", "stats", "small").out
    load = next(line for line in out.splitlines() if line.startswith("r1") and "%" in line)
    assert load.split()[-5:] == ["0", "0", "0.0%", f"{640 / 1238:.1%}", f"{1 + 64 / 23:.2f}"]
    positions = out[out.index("accepted at") :].splitlines()
    assert positions[0].split() == ["accepted", "at", "1", "2", "3", "4"]
    assert positions[2].split() == ["r1", "91%", "78%", "61%", "48%"]


def test_an_endpoint_without_replicas_says_so(outrider: Run, answers: list[Any]) -> None:
    answers.append(Recent(NOW - 10_000).stats("small", [], held=0, connected=True, now=NOW))
    head = outrider("endpoint", "stats", "small").out.splitlines()[0]
    assert head.endswith("now 0 in flight, 0 held, no replica")


def test_what_nobody_knows_is_a_dash_and_null(outrider: Run, answers: list[Any]) -> None:
    unknown = view(connected=False)
    answers += [unknown, unknown]
    out = outrider("endpoint", "stats", "small").out
    assert "no gateway tells of its requests" in out
    assert all(line.split()[1:].count("–") >= 8 for line in out.splitlines() if line.startswith(("all", "r1")))
    assert json.loads(outrider("endpoint", "stats", "small", "--json").out)["gateway"] is None


def test_watching_goes_on_until_it_cannot(outrider: Run, answers: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "EVERY", 0)
    answers += [view(), view(speculates=True)]
    done = outrider("endpoint", "stats", "small", "--watch", "--json")
    assert (done.code, done.err) == (EndpointNotFound.exit_code, "")
    first, second = (json.loads(line) for line in done.out.splitlines()[:2])
    assert json.loads("".join(done.out.splitlines()[2:]))["code"] == "endpoint_not_found"
    assert first["engine"] is None and second["engine"]["acceptance_length"] == 1 + 64 / 23
    answers += [view(), view()]
    assert outrider("endpoint", "stats", "small", "--watch").out.count("small, last 10 s") == 2


def test_it_is_redrawn_on_a_terminal_and_fits_a_hundred_columns(
    outrider: Run, answers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Console(force_terminal=True, width=100, height=40)
    monkeypatch.setattr(stats, "EVERY", 0)
    monkeypatch.setattr(stats, "console", terminal)
    answers += [view(speculates=True), view(speculates=True)]
    out = outrider("endpoint", "stats", "small", "--watch").out
    assert "\x1b[1A" in out, "the cursor goes back up to draw over what was there"
    lines = clean_lines(out).splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 100
    assert sum(line.startswith("accepted at") for line in lines) >= 2


def test_long_drafts_take_several_lines_and_end_where_nothing_was_accepted(outrider: Run, answers: list[Any]) -> None:
    seen = view(speculates=True)
    seen["engine"]["acceptance_by_position"] = [1.0] * 13 + [0.0] * 30
    answers.append(seen)
    first, second = outrider("endpoint", "stats", "small").out.split("accepted at")[1:]
    assert first.split()[:13] == [*map(str, range(1, 13)), "all"]
    assert first.split()[-5:] == ["48%", *["–"] * 8][-5:]
    assert second.split() == ["13", "all", "100%", "r1", "–"]


@pytest.mark.parametrize(
    ("seconds", "said"), [(None, "–"), (0.0004, "0.4 ms"), (0.0421, "42 ms"), (0.9, "900 ms"), (1.234, "1.23 s")]
)
def test_durations(seconds: float | None, said: str) -> None:
    assert stats.duration(seconds) == said


@pytest.mark.parametrize(
    ("value", "said"), [(None, "–"), (0, "0.00"), (0.05, "0.05"), (42.19, "42.2"), (12345.6, "12346")]
)
def test_rates(value: float | None, said: str) -> None:
    assert stats.rate(value) == said
