"""``outrider endpoint plan``: made by the controller where one answers, else here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from outrider.recipes.library import load_catalog
from outrider.recipes.plan import Plan
from outrider.recipes.planner import plan
from outrider.spec.endpoint import parse
from outrider.spec.home import Home
from outrider.spec.inventory import Inventory
from tests.cli.api import Api
from tests.cli.conftest import Run
from tests.client.standin import Asked, Standin

_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
_WORDS = ("endpoint", "plan", "--model", _MODEL)


def _plan(asked: Asked) -> dict[str, Any]:
    inventory = Inventory(cores=2, memory_bytes=8 << 30, disk_free_bytes=50 << 30, engines={"llamacpp": "1"})
    return plan(parse(asked.body), inventory, load_catalog([]), None).model_dump(mode="json")


def test_every_choice_is_told_with_its_reason(outrider: Run, api: Api, controller: Standin) -> None:
    api.answers["POST /plans"] = _plan
    made = Plan.model_validate_json(outrider(*_WORDS, "--json").out)
    done = outrider(*_WORDS)
    assert (done.code, done.err) == (0, "")
    for decision in made.decisions:
        assert decision.reason in done.out
    for flag in made.flags:
        assert flag.name in done.out
        assert flag.reason in done.out
    assert "\x1b" not in done.out
    assert controller.calls() == ["GET /api/v1/status", "POST /api/v1/plans"] * 2


def test_what_is_ignored_is_told_with_its_reason(outrider: Run, api: Api, controller: Standin) -> None:
    api.answers["POST /plans"] = lambda asked: dict(
        _plan(asked), ignored=[{"field": "regions.compute", "value": "eu", "reason": "one machine has no regions"}]
    )  # fmt: skip
    out = outrider(*_WORDS).out
    assert "regions.compute = eu" in out
    assert "one machine has no regions" in out


def test_without_a_controller_it_is_planned_here(outrider: Run, home: Home) -> None:
    made = json.loads(outrider(*_WORDS, "--json").out)
    assert made["model"] == _MODEL
    assert not home.store.exists()


def test_a_model_nobody_knows_says_what_was_tried(outrider: Run, home: Home) -> None:
    done = outrider("endpoint", "plan", "--model", "no/such-model")
    assert done.code == 3
    assert "  next: " in done.err


def test_explain_shows_all_that_was_considered(outrider: Run, home: Home) -> None:
    short, long = outrider(*_WORDS).out, outrider(*_WORDS, "--explain").out
    assert "considered: " not in short and "considered: " in long
    assert "smollm2-135m-instruct/llamacpp-cpu" in long and "MiB needed" in long and "by curve: measured" in long


def test_hardware_that_is_not_here_is_planned_with_a_word(outrider: Run, home: Home) -> None:
    done = outrider("endpoint", "plan", "--model", "openai/gpt-oss-120b", "--gpu", "H200:1")
    assert done.code == 0
    assert "nothing can start here" in done.out and "this machine has 0" in done.out


def test_an_objective_that_nothing_meets_is_refused_with_the_best(outrider: Run, home: Home, tmp_path: Path) -> None:
    spec = tmp_path / "fast.yaml"
    spec.write_text(f"model: {_MODEL}\nobjective: {{itl: 0.00001}}\n")
    done = outrider("endpoint", "plan", "-f", str(spec))
    assert done.code == 2
    assert "the best is" in done.err and "  next: " in done.err
