"""Published configurations beside the plans for their intents: every difference is explained, and the page says so."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from benchmarks.published import page
from benchmarks.published.compare import Comparison, compare, pairs

from outrider.recipes.library import load_catalog

CATALOG = load_catalog([])
BY_PAIR = pytest.mark.parametrize("row", pairs(), ids=lambda row: str(row["pair"]))


@cache
def compared(name: str) -> Comparison:
    return compare(next(row for row in pairs() if row["pair"] == name), CATALOG)


@BY_PAIR
def test_every_difference_is_explained_and_every_explanation_has_its_difference(row: Any) -> None:
    found = compared(row["pair"])
    assert [f"{one.what}: {one.published} | {one.planned}" for one in found.unexplained] == []
    assert found.idle == ()


@BY_PAIR
def test_every_pair_has_a_source_and_asks_for_nothing_but_an_intent(row: Any) -> None:
    assert row["published"]["source"].startswith("https://") and row["published"]["who"]
    assert row["spec"].keys() <= {"model", "profile", "workload", "objective"}
    assert CATALOG.for_model(row["spec"]["model"])


def test_there_are_enough_pairs_and_each_is_one_of_its_kind() -> None:
    kinds = {(row["spec"]["model"], row["machine"]) for row in pairs()}
    assert len(kinds) >= 15
    assert len({row["pair"] for row in pairs()}) == len(pairs())


def _changed(name: str, old: str, new: str) -> Comparison:
    row = copy.deepcopy(dict(next(row for row in pairs() if row["pair"] == name)))
    row["published"]["command"] = [word.replace(old, new) for word in row["published"]["command"]]
    return compare(row, CATALOG)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("--mem-fraction-static 0.85", "--mem-fraction-static 0.9", "flag memory_share"),
        ("--speculative-num-draft-tokens 2", "--speculative-num-draft-tokens 4", "drafter"),
        ("GLM-5.2-FP8", "GLM-5.2", "weights"),
        ("--dp 8", "--dp 4", "flag dp_size"),
        ("--dp 8", "--no-such-flag 8", "words"),
    ],
)
def test_a_new_difference_is_found_and_has_no_explanation(old: str, new: str, what: str) -> None:
    assert what in [one.what for one in _changed("GLM-5.2, 8 × H200, 64 long prompts", old, new).unexplained]


def test_an_explanation_without_its_difference_is_found() -> None:
    row = copy.deepcopy(dict(next(row for row in pairs() if row["pair"] == "DeepSeek-V3.2, 8 × H200")))
    assert compare({**row, "differences": {"drafter": "was off"}}, CATALOG).idle == ("drafter",)


def test_an_engine_older_than_the_source_asks_for_is_a_difference() -> None:
    row = copy.deepcopy(dict(next(row for row in pairs() if row["pair"] == "DeepSeek-V3.2, 8 × H200")))
    row["published"]["least_version"] = "99.0"
    assert [one.published for one in compare(row, CATALOG).unexplained if one.what == "version"] == ["≥ 99.0"]


def test_the_page_shows_the_comparison_as_it_is_now() -> None:
    made = page.page([compared(str(row["pair"])) for row in pairs()])
    assert page.PAGE.read_text(encoding="utf-8") == made, "run: make bench-published"


def test_make_runs_it() -> None:
    makefile = Path(__file__).parents[2] / "Makefile"
    assert "python -m benchmarks.published\n" in makefile.read_text(encoding="utf-8")
