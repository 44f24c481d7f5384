"""A request's record, through JSON and back; ITL as decided."""

from __future__ import annotations

import json
from typing import Any

import pytest

from outrider.metrics.record import Outcome, RequestRecord, from_dict, itl
from outrider.metrics.slices import SliceFacts

RECORD = RequestRecord(
    id="req-1",
    at=1_700_000_000_000,
    endpoint="tiny",
    revision=2,
    replica="r0",
    key=None,
    path="/v1/chat/completions",
    status=200,
    stream=True,
    prompt_tokens=7,
    completion_tokens=3,
    waited=0.0,
    ttft=0.1,
    itl=0.05,
    e2e=0.2,
    overhead=0.0001,
    retries=0,
    outcome=Outcome.OK,
    slices=SliceFacts(True, "json_schema", 0.5, "thinking", "latin"),
)


@pytest.mark.parametrize("record", [RECORD, RECORD._replace(slices=None, replica=None, revision=None)])
def test_round_trip(record: RequestRecord) -> None:
    back = from_dict(json.loads(json.dumps(record.as_dict())))
    assert back == record
    assert isinstance(back.outcome, Outcome)


def test_newer_fields_are_ignored_and_missing_ones_are_not() -> None:
    fields: dict[str, Any] = RECORD.as_dict()
    assert from_dict({**fields, "later": 1}) == RECORD
    del fields["ttft"]
    with pytest.raises(KeyError):
        from_dict(fields)
    with pytest.raises(ValueError):
        from_dict({**RECORD.as_dict(), "outcome": "?"})


@pytest.mark.parametrize(
    ("first", "last", "tokens", "expected"),
    [(1.0, 3.0, 5, 0.5), (1.0, 1.0, 8, 0.0), (1.0, 3.0, 1, None), (1.0, 3.0, None, None), (None, None, 5, None)],
)
def test_itl(first: float | None, last: float | None, tokens: int | None, expected: float | None) -> None:
    assert itl(first, last, tokens) == expected
