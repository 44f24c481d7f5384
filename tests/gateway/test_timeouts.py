"""How long a request may take."""

from __future__ import annotations

import pytest

from outrider.gateway.timeouts import Timeouts, wanted

TIMEOUTS = Timeouts(first_byte=10, idle=5, total=100)


@pytest.mark.parametrize(
    ("age", "silent", "answering", "word"),
    [
        (9, 9, False, None),
        (11, 10.5, False, "begin"),
        (11, 4, True, None),
        (11, 6, True, "still"),
        (101, 1, True, "100"),
        (101, 1, False, "100"),
    ],
)
def test_overdue(age: float, silent: float, answering: bool, word: str | None) -> None:
    problem = TIMEOUTS.overdue(age=age, silent=silent, answering=answering)
    assert problem is None if word is None else problem is not None and word in problem


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        (b"2.5", 2.5),
        (b" 30 ", 30.0),
        (b"0", None),
        (b"-1", None),
        (b"nan", None),
        (b"inf", None),
        (b"x", None),
    ],
)
def test_what_the_client_wants(header: bytes | None, seconds: float | None) -> None:
    assert wanted(header) == seconds
