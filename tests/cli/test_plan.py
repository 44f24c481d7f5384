"""``outrider endpoint plan``: made by the controller where one answers, else here."""

from __future__ import annotations

import json
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
