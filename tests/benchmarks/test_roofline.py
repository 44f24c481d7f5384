"""The roofline's check computes what it says, its result is current and good enough, and its page shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.roofline import check, page

from outrider.recipes.library import load_catalog

RESULT = json.loads(page.RESULT.read_text(encoding="utf-8"))


def test_the_result_is_what_the_roofline_says_now() -> None:
    made = check.report()
    assert {name: RESULT[name] for name in made} == made


def test_the_median_error_is_within_what_is_wanted() -> None:
    assert RESULT["ratios"]["itl_c1_median_abs_error"] <= page.WANTED
    assert RESULT["with_tau"] == sum("error" in row for row in RESULT["rows"]) >= 15


def test_the_page_shows_the_latest_result() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.current(text) == text


def test_every_row_has_a_source_and_its_model_facts() -> None:
    catalog = load_catalog([])
    for row in check.rows():
        assert row["source"] and row["itl_ms"] > 0
        assert catalog.for_model(row["model"]), row["name"]
        assert row.get("own") or row["source"].startswith("https://"), row["name"]


def test_an_impossible_acceptance_length_is_flagged() -> None:
    catalog = load_catalog([])
    row = next(row for row in check.rows() if row["name"] == "qwen3.6-27b-h200-fp8")
    found = check.checked({**row, "itl_ms": row["itl_ms"] / 10}, catalog)
    assert found["implied_tau"] > 4 and not found["possible"]
    assert "**outside**" in page.section({**RESULT, "rows": [found]})


def test_a_known_acceptance_length_divides_the_step() -> None:
    catalog = load_catalog([])
    row = next(row for row in check.rows() if row["name"] == "qwen3-8b-vllm-dflash-16-tau-4")
    one = check.checked({**row, "acceptance_length": 1.0}, catalog)
    four = check.checked(row, catalog)
    assert one["predicted_ms"] == pytest.approx(4 * four["predicted_ms"], rel=1e-3)


def test_make_runs_it() -> None:
    makefile = Path(__file__).parents[2] / "Makefile"
    assert "python -m benchmarks.roofline\n" in makefile.read_text(encoding="utf-8")
