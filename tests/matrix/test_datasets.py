"""Bad data for drafters: files that are none, and rows that would train on something else than will be met."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from outrider.drafting import dataset
from outrider.errors import OutriderError
from tests.matrix.refusal import Refusal, check_refusal

TARGET = "d" * 64
VOCABULARY, MASK = 50, 3
GOOD: dict[str, Any] = {
    "id": "a",
    "slice": "chat",
    "split": "train",
    "template": None,
    "tokens": [5, 6, 7, 8],
    "answers": [[1, 4]],
}
MANIFEST: dict[str, Any] = {"target": {"digest": TARGET}}


class Case(NamedTuple):
    """Second line of ``rows.jsonl`` and the manifest (None: no such file), the code, and a word of the refusal."""

    line: str | None
    manifest: str | None
    code: str
    says: str


def _row(says: str, **changes: object) -> Case:
    return Case(json.dumps(GOOD | changes), json.dumps(MANIFEST), "invalid_dataset", says)


def _line(text: str | None, says: str) -> Case:
    return Case(text, json.dumps(MANIFEST), "invalid_dataset", says)


CASES = {
    "no rows": _line(None, "No such file"),
    "no manifest": Case(json.dumps(GOOD), None, "invalid_dataset", "No such file"),
    "a manifest that is no JSON": Case(json.dumps(GOOD), "{", "invalid_dataset", "No data can be read"),
    "another target's": Case(
        json.dumps(GOOD), json.dumps({"target": {"digest": "e" * 64}}), "invalid_dataset", "Another target"
    ),
    "a line that is no JSON": _line("{", "Line 2 of rows.jsonl"),
    "a list for a line": _line("[]", "Line 2 of rows.jsonl"),
    "a line that lacks fields": _line('{"id": "b"}', "Line 2 of rows.jsonl"),
    "a field that nobody knows": _row("Line 2 of rows.jsonl", weight=1),
    "answers that are no spans": _row("Line 2 of rows.jsonl", answers=[1]),
    "another split": _row("its split is 'test'", split="test"),
    "an empty loss mask": _row("its loss mask is empty", answers=[]),
    "an answer beyond the text": _row("outside of its tokens", answers=[[1, 9]]),
    "an answer to nothing": _row("outside of its tokens", answers=[[0, 3]]),
    "a token of another vocabulary": _row("token 50 is none of the target's 50", tokens=[5, 6, 7, 50]),
    "the mask token": _row("uses the mask token 3", tokens=[5, 6, MASK, 8]),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_bad_data_is_refused_by_its_line(tmp_path: Path, case: Case) -> None:
    if case.line is not None:
        (tmp_path / dataset.ROWS).write_text(f"{json.dumps(GOOD)}\n{case.line}\n")
    if case.manifest is not None:
        (tmp_path / dataset.MANIFEST).write_text(case.manifest)
    with pytest.raises(OutriderError) as caught:
        _checked(tmp_path)
    check_refusal(Refusal.of_error(caught.value), case.code, case.says)


def test_good_data_is_taken(tmp_path: Path) -> None:
    (tmp_path / dataset.ROWS).write_text(f"{json.dumps(GOOD)}\n")
    (tmp_path / dataset.MANIFEST).write_text(json.dumps(MANIFEST))
    assert _checked(tmp_path).rows[0].supervised == 3


def _checked(directory: Path) -> dataset.Dataset:
    found = dataset.read(directory)
    dataset.check(found, vocabulary=VOCABULARY, target=TARGET, mask_token=MASK)
    return found
