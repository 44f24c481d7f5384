"""An endpoint tuned for real by llama.cpp: afterwards a recipe, a report, a revision, and nothing left running."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.e2e.outrider_process import MODEL, NAME, Outrider, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

_WORKLOAD = """\
concurrency: 1
kinds:
  short: {input_tokens: 24, output_tokens: 12}
  repeated: {trace: repeated.jsonl}
"""
_REPEATED = [{"role": "user", "content": "Say it again: one two three, one two three, one two three"}]
_DRAFTING = (
    *("--set", "speculative.types=ngram-simple"),
    *("--set", "speculative.ngram_simple.size_n=1", "--set", "speculative.ngram_simple.size_m=40"),
)
"""Forty tokens after each that was seen before: on a CPU in Q4_1 that costs many times what it gives."""

_INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has it ignored by what runs in its background
from outrider.cli.main import main
main()
"""


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """Random words, and a text that repeats itself."""
    line = {"at": 0.0, "input_tokens": 30, "output_tokens": 12, "messages": _REPEATED}
    (tmp_path / "repeated.jsonl").write_text(json.dumps(line) + "\n")
    file = tmp_path / "workload.yaml"
    file.write_text(_WORKLOAD)
    return file


@pytest.mark.tuning
def test_a_bad_drafter_is_found_out_and_a_better_revision_promoted(
    outrider: Outrider, workload: Path, tmp_path: Path
) -> None:
    outrider.run("endpoint", "create", "--model", MODEL, "--no-wait", *_DRAFTING)
    outrider.run("endpoint", "stop", NAME)
    until(lambda: not outrider.json("endpoint", "info", NAME)["replicas"])
    words = ("endpoint", "tune", NAME, "--workload", str(workload), "--budget", "4m", "--seed", "1", "--promote")
    for _ in range(3):  # others may use the machine in one turn and not in the next: then nothing is called better
        said = outrider.json(*words, "--vary", "speculation", "--method", "off")
        if said["improved"]:
            break
    assert said["improved"] and said["promoted"] == 2
    [compared] = said["comparisons"]
    assert compared["won"] and compared["cost_other_over_stands"]["high"] < 1
    assert {row["kind"] for row in said["slices"]} == {"short", "repeated"}
    assert outrider.leftovers_of_tuning() == []

    file = Path(said["files"]["recipe"])
    assert file == tmp_path / "config/outrider/recipes" / f"tuned-{NAME}.yaml"
    outrider.run("recipe", "lint", str(file))
    [recipe] = yaml.safe_load_all(file.read_text())
    assert recipe["provenance"]["status"] == "measured" and recipe["provenance"]["command"].startswith("outrider ")
    assert [point["concurrency"] for point in recipe["capacity_curve"]] == [1]
    assert recipe["speculation"]["method"] == "off" and not any("speculative" in flag for flag in recipe["flags"])
    report = Path(said["files"]["report"]).read_text()
    assert f"# {NAME}: tuned on" in report and "better" in report and "repeated" in report

    info = outrider.json("endpoint", "info", NAME)
    assert (info["revision"]["number"], info["recipe"], info["source_edited"]) == (2, recipe["id"], False)
    assert "speculative" not in outrider.run("endpoint", "source", NAME)
    assert outrider.chat(tokens=4).status_code == 200
    outrider.run("down")
    assert outrider.leftovers() == []


def test_an_interrupted_tuner_leaves_nothing_running(outrider: Outrider, workload: Path) -> None:
    outrider.run("endpoint", "create", "--model", MODEL, "--no-wait")
    outrider.run("endpoint", "stop", NAME)
    words = ("endpoint", "tune", NAME, "--workload", str(workload))
    argv = [sys.executable, "-c", _INTERRUPTIBLE, *words]
    for number in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen(
            argv, env=outrider.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as tuner:
            until(lambda: list((outrider.home.root / "tuning/replicas").glob("*/replica.json")))
            refused = outrider.attempt(*words)
            assert refused.returncode == 4 and "Another tuner is at work" in refused.stderr
            tuner.send_signal(number)
            said, _ = tuner.communicate(timeout=60)
        assert tuner.returncode == 130 and "Traceback" not in said
        assert outrider.leftovers_of_tuning() == []
        assert not list(outrider.home.root.glob("tuning*"))
