"""The registry through the command line and the REST API, with the real controller."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.outrider_process import Outrider
from tests.models.drafter_files import write_tiny
from tests.models.real import SHA256, smollm

pytestmark = pytest.mark.e2e


def fitting(directory: Path) -> Path:
    """A drafter of zeros that fits SmolLM2-135M."""
    return write_tiny(directory, hidden=576, target_layers=30, vocab=49152, mask=5, taps=(1, 14, 27))


def test_a_drafter_is_taken_in_bound_planned_with_and_forgotten(outrider: Outrider, tmp_path: Path) -> None:
    outrider.run("up")
    assert outrider.json("drafter", "list") == []
    used = outrider.json("drafter", "use", str(fitting(tmp_path / "zeros")), "--target", f"path:{smollm()}")
    assert (used["drafter"], used["target"], used["endpoint"]) == ("zeros", SHA256, None)
    (listed,) = outrider.json("drafter", "list")
    assert (listed["name"], listed["bound_to"], listed["method"]) == ("zeros", [SHA256], "dflash")
    plan = outrider.json("endpoint", "plan", "--model", "smollm2-135m", "--weights", f"path:{smollm()}")
    assert plan["speculation"]["method"] == "off"
    assert "zeros is bound to these weights, but drafting pays here from τ" in plan["speculation"]["reason"]
    outrider.run("drafter", "rm", "zeros")
    assert outrider.json("drafter", "list") == []


def test_a_drafter_that_does_not_fit_leaves_nothing(outrider: Outrider, tmp_path: Path) -> None:
    outrider.run("up")
    other = write_tiny(tmp_path / "narrow", hidden=128, target_layers=30, vocab=49152, mask=5, taps=(1, 14, 27))
    done = outrider.attempt("drafter", "use", str(other), "--target", f"path:{smollm()}")
    assert done.returncode == 2
    assert "states of 128 numbers, the target's have 576" in done.stderr
    assert outrider.json("drafter", "list") == []


def test_an_endpoint_gets_a_revision_with_its_drafter_where_that_pays(outrider: Outrider, tmp_path: Path) -> None:
    outrider.run("up")
    outrider.run("endpoint", "create", "--model", "smollm2-135m", "--name", "small", "--no-wait")
    used = outrider.json("drafter", "use", str(fitting(tmp_path / "zeros")), "--endpoint", "small")
    assert (used["endpoint"], used["target"], used["planned"]) == ("small", SHA256, "off")
    assert "never measured" in used["reason"]
    outrider.run("endpoint", "rm", "small", "--purge")
