from __future__ import annotations

import json
from pathlib import Path

import pytest

from outrider.recipes.library import SHIPPED
from tests.cli.conftest import Run


def test_recipes_are_listed_and_shown_without_a_controller(outrider: Run) -> None:
    listed = json.loads(outrider("recipe", "list", "--json").out)
    first = listed[0]["id"]
    assert first in outrider("recipe", "list").out
    assert json.loads(outrider("recipe", "show", first, "--json").out) == listed[0]
    assert first in outrider("recipe", "show", first).out
    assert outrider("recipe", "show", "no/such").code == 3


def test_the_shipped_catalog_lints_clean(outrider: Run) -> None:
    done = outrider("recipe", "lint", str(SHIPPED))
    assert (done.code, done.err) == (0, "")
    assert "no error" in done.out
    assert json.loads(outrider("recipe", "lint", str(SHIPPED), "--json").out)["findings"] == []


def test_lint_lists_every_problem_with_file_and_line(outrider: Run, tmp_path: Path) -> None:
    text = (SHIPPED / "smollm2.yaml").read_text()
    bad = tmp_path / "bad.yaml"
    bad.write_text(text.replace("  threads:", "  threds:").replace("version: 1\nmodel", "version: 0\nmodel"))
    (tmp_path / "broken.yaml").write_bytes(b"\xff")
    done = outrider("recipe", "lint", str(tmp_path))
    assert done.code == 2
    assert f"{bad}:4: error: version: 0: greater than or equal to 1\n" in done.out
    assert ": error: flags.threds: llamacpp has no such flag (did you mean 'threads'?)\n" in done.out
    assert f"{tmp_path / 'broken.yaml'}: error: (file): cannot be read" in done.out
    assert f"{bad}:3: warning: id: " in done.out  # it shadows the one that ships
    assert done.err.startswith("error: 3 errors in 2 of 2 files\n")


def test_lint_in_json_is_one_object_that_always_lists_the_findings(outrider: Run, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("id: x\n")
    done = outrider("recipe", "lint", str(bad), "--json")
    assert (done.code, done.err) == (2, "")
    said = json.loads(done.out)
    assert said["code"] == "invalid_recipe"
    model = next(finding for finding in said["findings"] if finding["field"] == "model")
    assert (model["file"], model["line"], model["severity"]) == (str(bad), 1, "error")


def test_a_warning_exits_with_0(outrider: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text((SHIPPED / "smollm2.yaml").read_text())
    done = outrider("recipe", "lint", str(own), str(own))
    assert done.code == 0
    assert "1 file checked: no error, 1 warning" in done.out


@pytest.mark.parametrize("name", ["none.yaml", "empty"])
def test_nothing_to_lint_is_said(outrider: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    assert outrider("recipe", "lint", str(tmp_path / name)).code == 2
