from __future__ import annotations

import re
from pathlib import Path

import pytest

from outrider.cli.error_reference import epilog, families, kinds, page
from outrider.errors import InvalidSpec, OutriderError, Problem

_KINDS = list(kinds())


def test_the_page_is_current() -> None:
    written = Path(__file__).parents[2] / "docs/reference/errors.md"
    assert written.read_text() == page(), "run: python -m outrider.cli.error_reference > docs/reference/errors.md"


def test_every_family_has_a_number_of_its_own() -> None:
    assert sorted(families()) == list(range(2, 2 + len(families())))
    assert [int(number) for number in re.findall(r"^  (\d+)  ", epilog(), re.M)] == [0, 1, *families()]


def test_every_code_is_one_class() -> None:
    codes = [kind.code for kind in _KINDS]
    assert len(set(codes)) == len(codes)
    assert all(page().count(f"| `{code}` |") == 1 for code in codes)


@pytest.mark.parametrize("kind", _KINDS)
def test_every_error_says_what_to_do(kind: type[OutriderError]) -> None:
    assert "usual_remedy" in vars(kind), "a remedy of its own, not its family's"
    error = InvalidSpec("It\nbroke", [Problem(message="why")]) if kind is InvalidSpec else kind("It\nbroke", why="why")
    problem = error.problem()
    assert (problem["title"], problem["detail"], problem["remedy"]) == ("It broke", "why", kind.usual_remedy)
    assert kind.usual_remedy.isprintable()
