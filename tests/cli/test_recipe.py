from __future__ import annotations

import json
import re
from datetime import datetime, tzinfo
from pathlib import Path

import pytest

from outrider.recipes.library import SHIPPED
from tests.cli.conftest import Run

FIRST = (SHIPPED / "smollm2.yaml").read_text().partition("\n---")[0] + "\n"
SAMPLES = Path(__file__).parents[1] / "recipes/samples"


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
    text = FIRST
    bad = tmp_path / "bad.yaml"
    bad.write_text(text.replace("  threads:", "  threds:").replace("version: 2\nmodel", "version: 0\nmodel"))
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
    own.write_text(FIRST)
    done = outrider("recipe", "lint", str(own), str(own))
    assert done.code == 0
    assert "1 file checked: no error, 1 warning" in done.out


@pytest.mark.parametrize("name", ["none.yaml", "empty"])
def test_nothing_to_lint_is_said(outrider: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    assert outrider("recipe", "lint", str(tmp_path / name)).code == 2


def test_the_list_says_who_has_tested_what(outrider: Run) -> None:
    done = outrider("recipe", "list")
    listed = json.loads(outrider("recipe", "list", "--json").out)
    statuses = [recipe["provenance"]["status"] for recipe in listed]
    named = [f"{statuses.count(s)} {s}" for s in ("measured", "published", "estimated", "untested")]
    assert done.out.endswith(f"{len(listed)} recipes: {', '.join(named)}\n")
    few = json.loads(outrider("recipe", "list", "--provenance", "measured", "--json").out)
    assert 0 < len(few) == statuses.count("measured")
    smol = json.loads(outrider("recipe", "list", "--model", "smollm2-135m", "--json").out)
    assert {recipe["model"]["id"] for recipe in smol} == {"HuggingFaceTB/SmolLM2-135M-Instruct"}
    assert outrider("recipe", "list", "--model", "smolm2-135m").code == 3
    assert "Say one of measured" in outrider("recipe", "list", "--provenance", "good").err


def test_an_import_is_linted_and_written_once(outrider: Run, tmp_path: Path) -> None:
    out = tmp_path / "own.yaml"
    words = ("recipe", "import", "vllm", str(SAMPLES / "vllm-qwen3.6-27b-fp8.json"))
    done = outrider(*words, "--output", str(out))
    assert (done.code, done.err) == (0, "")
    assert "1 imported" in done.out
    assert "no place in a recipe: kv_offload_support, meta.badges" in done.out
    written = out.read_text()
    assert "id: qwen3-6-27b/vllm-2xh200-fp8" in written
    assert outrider("recipe", "lint", str(out)).code == 0
    assert "is there already" in outrider(*words, "--output", str(out)).err
    assert out.read_text() == written


def test_without_an_output_an_import_prints_the_recipe_and_nothing_else(outrider: Run) -> None:
    done = outrider("recipe", "import", "vllm", str(SAMPLES / "vllm-qwen3.6-27b-fp8.json"))
    assert done.out.startswith("schema_version: 1\n")
    assert done.err.startswith("1 imported: 1 published, 0 untested\n")
    said = json.loads(outrider("recipe", "import", "sglang", str(SAMPLES / "sglang-small.jsx"), "--json").out)
    assert [recipe["provenance"]["status"] for recipe in said["recipes"]] == ["published", "untested", "untested"]
    assert "cells.3: it spans several nodes" in said["left_out"]


def test_an_import_that_is_no_recipe_writes_nothing(outrider: Run, tmp_path: Path) -> None:
    data = json.loads((SAMPLES / "vllm-qwen3.6-27b-fp8.json").read_text())
    data["recommended_command"]["argv"] += ["--anthropic-disabled-thinking-effort", "low"]
    bad, out = tmp_path / "bad.json", tmp_path / "out.yaml"
    bad.write_text(json.dumps(data))
    done = outrider("recipe", "import", "vllm", str(bad), "-o", str(out), "--engine-version", "0.24.0")
    assert (done.code, out.exists()) == (2, False)
    assert "known since 0.32.0" in done.err
    bad.write_text("{")
    assert "is no JSON" in outrider("recipe", "import", "vllm", str(bad)).err
    assert "Use https://" in outrider("recipe", "import", "vllm", "http://example.org/x.json").err


def test_users_own_recipes_are_searched_first(outrider: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.yaml").write_text(FIRST.replace("precision: Q4_1", "precision: mine"))
    monkeypatch.setenv("OUTRIDER_RECIPES", str(tmp_path))
    shown = json.loads(outrider("recipe", "show", "smollm2-135m-instruct/llamacpp-cpu", "--json").out)
    assert shown["precision"] == "mine"


class _Clock(datetime):
    """It stands still."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> _Clock:
        return cls(2026, 12, 1, tzinfo=tz)


def test_recipes_whose_day_is_over_are_named(outrider: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.cli.recipe.datetime", _Clock)
    monkeypatch.setenv("OUTRIDER_RECIPES", str(tmp_path))
    assert "stale" not in outrider("recipe", "list", "--model", "HuggingFaceTB/SmolLM2-135M-Instruct").out
    (tmp_path / "old.yaml").write_text(re.sub(r"stale_after: \S+", "stale_after: 2026-01-01", FIRST))
    listed = outrider("recipe", "list", "--model", "HuggingFaceTB/SmolLM2-135M-Instruct").out
    assert "stale, somebody should measure them again: smollm2-135m-instruct/llamacpp-cpu\n" in listed
