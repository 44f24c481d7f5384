"""``doctor`` on this machine: with nothing running, changing nothing, and with what tests break."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from outrider.app import uv
from outrider.errors import MachineFault
from outrider.recipes.library import SHIPPED
from outrider.spec.home import Home
from tests.cli.conftest import Run

VLLM_CPU = "smollm2-135m-instruct/vllm-cpu"
_STATUSES = ("ok", "note", "warning", "problem")


@pytest.fixture(autouse=True)
def ports(monkeypatch: pytest.MonkeyPatch) -> tuple[int, int]:
    """Free ports, so that an Outrider of this machine's user is not in the way."""
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        found = one.getsockname()[1], two.getsockname()[1]
    monkeypatch.setenv("OUTRIDER_PORT", str(found[0]))
    monkeypatch.setenv("OUTRIDER_API_PORT", str(found[1]))
    return found


@pytest.fixture(autouse=True)
def own_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "recipes"
    directory.mkdir()
    monkeypatch.setenv("OUTRIDER_RECIPES", str(directory))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return directory


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _report(outcome: Any) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    report = json.loads(outcome.out)
    return report, {finding["check"]: finding for finding in report["findings"]}


def test_every_check_is_there_and_the_exit_code_follows_from_them(outrider: Run, ports: tuple[int, int]) -> None:
    outcome = outrider("doctor", "--json")
    report, findings = _report(outcome)
    checks = ["recipes", "gpus", "llamacpp", "vllm", "sglang", "cores", "memory", "home", "cache", "sockets", "cgroup"]
    checks += [f"port {ports[0]}", f"port {ports[1]}", "clock", "open files", "python"]
    assert list(findings) == checks
    for finding in findings.values():
        assert finding["status"] in _STATUSES and finding["found"]
        assert finding["status"] == "ok" or (finding["consequence"] and finding["fix"]), finding
    assert report["status"] == max((f["status"] for f in findings.values()), key=_STATUSES.index)
    assert outcome.code == (MachineFault.exit_code if report["status"] == "problem" else 0)


def test_the_recipe_that_ships_runs_here(outrider: Run) -> None:
    report, findings = _report(outrider("doctor", "--json"))
    assert findings["llamacpp"]["status"] == "ok"
    runnable = {recipe["recipe"]: recipe["runnable"] for recipe in report["recipes"]}
    assert runnable["smollm2-135m-instruct/llamacpp-cpu"] is True


def test_the_text_says_the_same(outrider: Run) -> None:
    _, findings = _report(outrider("doctor", "--json"))
    text = outrider("doctor").out
    assert text.startswith("What this machine can run\n")
    assert "\x1b" not in text
    for finding in findings.values():
        assert re.search(rf"^  {finding['status']} +{finding['check']} ", text, re.MULTILINE), finding
        assert finding["consequence"] in text
        if finding["fix"]:
            assert f"fix: {finding['fix']}\n" in text


def test_nothing_is_made(outrider: Run, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "never/home"))
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "never/cache"))
    never = Home.from_environment()
    before = sorted(tmp_path.rglob("*"))
    for words in (("doctor",), ("doctor", "--json")):
        assert outrider(*words).code in (0, MachineFault.exit_code)
    assert sorted(tmp_path.rglob("*")) == before
    assert not never.sockets.exists()


def test_a_port_in_use_is_a_problem_that_names_its_holder(
    outrider: Run, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = outrider("doctor", "--json", "--port", str(taken))
    finding = _report(outcome)[1][f"port {taken}"]
    assert outcome.code == MachineFault.exit_code == 7
    assert finding["found"] == f"taken by {psutil.Process().name()} (pid {os.getpid()})"
    other = re.match(r"outrider up --port (\d+) ", finding["fix"])
    assert other is not None
    socket.create_server(("127.0.0.1", int(other[1]))).close()
    assert outrider("doctor", "--port", str(taken)).code == 7


def test_a_recipe_file_that_is_wrong_is_a_finding_and_the_others_are_judged(outrider: Run, own_recipes: Path) -> None:
    (own_recipes / "bad.yaml").write_text("id: x\n")
    outcome = outrider("doctor", "--json")
    report, findings = _report(outcome)
    assert outcome.code == 7
    assert str(own_recipes / "bad.yaml") in findings["recipes"]["consequence"]
    assert report["recipes"]


def test_an_environment_that_cannot_be_built_is_found_before_an_endpoint_is_made(
    outrider: Run, own_recipes: Path, home: Home, weights_cache: Path
) -> None:
    """The recipe of the same id stands in for the one that ships; uv is fetched once for all tests."""
    uv.find(weights_cache, {"PATH": ""}, lambda progress: None)
    home.cache.mkdir(parents=True, exist_ok=True)
    (home.cache / "tools").symlink_to(weights_cache / "tools")
    recipe = next(one for one in yaml.safe_load_all((SHIPPED / "smollm2.yaml").read_text()) if one["id"] == VLLM_CPU)
    recipe["engine"]["environment"] = {"packages": ["no-such-package-at-all==0"]}
    (own_recipes / "mine.yaml").write_text(yaml.safe_dump(recipe))
    assert _verdict(outrider("doctor", "--json"), VLLM_CPU)["runnable"], "nobody asked the index"
    outcome = outrider("doctor", "--environments", "--json")
    assert outcome.code == 7
    finding = _report(outcome)[1]["environment"]
    assert (finding["found"], finding["status"]) == ("no-such-package-at-all==0", "problem")
    verdict = _verdict(outcome, VLLM_CPU)
    assert not verdict["runnable"] and "its environment cannot be built: " in verdict["reason"] and verdict["fix"]
    assert not (home.cache / "environments").exists()


def _verdict(outcome: Any, recipe: str) -> dict[str, Any]:
    return next(verdict for verdict in json.loads(outcome.out)["recipes"] if verdict["recipe"] == recipe)


def test_a_cache_that_is_a_file_is_a_problem(outrider: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "file"))
    outcome = outrider("doctor", "--json")
    assert outcome.code == 7
    assert "OUTRIDER_CACHE" in _report(outcome)[1]["cache"]["fix"]


def test_on_a_terminal_prose_is_wrapped_and_a_fix_is_not(tmp_path: Path, taken: int) -> None:
    """A real pseudo-terminal, 80 columns wide."""
    ours, theirs = pty.openpty()
    env = os.environ | {"COLUMNS": "80", "TERM": "xterm-256color", "OUTRIDER_HOME": str(tmp_path / "home")}
    env.pop("NO_COLOR", None)
    command = [sys.executable, "-m", "outrider.cli.main", "doctor", "--port", str(taken)]
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL, env=env)
    os.close(theirs)
    shown = b""
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # EIO: the other side is closed
            break
        shown += chunk
    os.close(ours)
    assert process.wait() == 7
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).replace("\r", "")
    assert b"\x1b[1;31mproblem" in shown
    lines = text.rpartition("What this machine can run")[2].splitlines()
    fixes = [line for line in lines if line.lstrip().startswith("fix: ")]
    assert any(line.lstrip().startswith(f"fix: outrider up --port {taken + 1}") or len(line) > 80 for line in fixes)
    assert all(len(line) <= 80 for line in lines if line not in fixes)
    assert all(line == line.rstrip() for line in lines)
