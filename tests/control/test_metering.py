"""What keys use: counted from records, kept through failures, and told to gateways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from outrider.control.metering import Metering, counted, spent
from outrider.store.database import open_database
from outrider.store.usage import Usage, Used


def record(key: str | None = "k1", outcome: str = "ok", prompt: int | None = 7, completion: int | None = 3) -> Any:
    return {"key": key, "outcome": outcome, "prompt_tokens": prompt, "completion_tokens": completion}


def test_what_counts() -> None:
    records = [record(), record(completion=None), record("k2"), record(None), record(outcome="refused")]
    records.append(record(outcome="client_gone", prompt=None, completion=None))
    assert counted(records) == {"k1": Used(3, 14, 3), "k2": Used(1, 7, 3)}


def test_what_cannot_be_written_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = open_database(tmp_path / "store.db")
    metering = Metering(database)
    metering.take([record()])
    with monkeypatch.context() as patched:

        def full(self: Usage, used: dict[str, Used]) -> None:
            metering.take([record()])  # one more comes meanwhile
            raise OperationalError("insert", None, Exception("disk is full"))

        patched.setattr(Usage, "add", full)
        with pytest.raises(OperationalError):
            metering.flush()
    assert metering.flush() == metering.flush() == {"k1": Used(2, 14, 6)}
    assert Metering(database).flush() == {"k1": Used(2, 14, 6)}
    database.close()


@given(st.integers(1, 10**9), st.integers(0, 10**10))
def test_a_budget_is_told_in_hundredths_and_never_as_spent_before_it_is(budget: int, tokens: int) -> None:
    told = spent({"budget_tokens": budget}, Used(1, tokens, 0))["spent_tokens"]
    assert (told >= budget) == (tokens >= budget)
    assert told <= tokens and min(tokens, budget) - told <= max(1, budget // 100)


def test_without_a_budget_nothing_is_told() -> None:
    assert spent({"tokens_per_minute": 5}, Used(1, 10, 10)) == {"tokens_per_minute": 5}
