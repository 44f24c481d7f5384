from __future__ import annotations

import pytest

from outrider.store.database import Database
from outrider.store.usage import Usage, Used


def test_sums_grow(database: Database) -> None:
    usage = Usage(database)
    assert usage.all() == {}
    usage.add({"a": Used(1, 10, 5), "b": Used(2, 0, 0)})
    usage.add({"a": Used(1, 2**40, 1)})
    assert usage.all() == {"a": Used(2, 2**40 + 10, 6), "b": Used(2, 0, 0)}
    assert usage.all()["a"].tokens == 2**40 + 16


def test_all_of_it_or_nothing(database: Database) -> None:
    usage = Usage(database)
    with pytest.raises(AttributeError):
        usage.add({"a": Used(1, 1, 1), "b": None})  # type: ignore[dict-item]
    assert usage.all() == {}
