from __future__ import annotations

from dataclasses import replace

import pytest

from outrider.errors import DrafterExists, DrafterNotFound
from outrider.store.database import Database
from outrider.store.drafters import DrafterRecord, Drafters

ONE = DrafterRecord(
    name="one",
    sha256="a" * 64,
    bytes=12,
    method="dflash",
    kind="dflash",
    block_size=8,
    parent=None,
    target={"name": "small", "sha256": "c" * 64},
    data={"manifest": "d" * 64},
    hyperparameters={"steps": 10},
    modes=["non-thinking"],
    languages=["en"],
    max_context=2048,
    evaluation={"tau": {"chat": 2.5}},
    created_at=1,
)
TWO = replace(ONE, name="two", sha256="b" * 64, parent="one", modes=None, languages=None, data=None, created_at=2)


def test_what_is_stored_comes_back(database: Database) -> None:
    drafters = Drafters(database)
    assert drafters.list() == []
    drafters.add(TWO)
    drafters.add(ONE)
    assert drafters.list() == [ONE, TWO]
    assert drafters.get("two") == TWO
    with pytest.raises(DrafterNotFound, match="three"):
        drafters.get("three")


def test_the_same_weights_again_change_nothing_and_others_are_refused(database: Database) -> None:
    drafters = Drafters(database)
    drafters.add(ONE)
    assert drafters.add(replace(ONE, created_at=99)) == ONE
    with pytest.raises(DrafterExists, match="bbbb"):
        drafters.add(replace(TWO, name="one"))
    assert drafters.list() == [ONE]


def test_a_target_has_one_drafter(database: Database) -> None:
    drafters = Drafters(database)
    drafters.add(ONE)
    drafters.add(TWO)
    for name in ("one", "two"):
        drafters.bind(name, "e" * 64, at=3)
    drafters.bind("one", "f" * 64, at=4)
    assert drafters.bindings() == {"e" * 64: TWO, "f" * 64: ONE}
    drafters.release("f" * 64)
    drafters.release("f" * 64)
    assert drafters.bindings() == {"e" * 64: TWO}
    with pytest.raises(DrafterNotFound):
        drafters.bind("three", "e" * 64, at=5)
    assert drafters.bindings() == {"e" * 64: TWO}


def test_a_drafter_takes_its_bindings_with_it(database: Database) -> None:
    drafters = Drafters(database)
    drafters.add(ONE)
    drafters.bind("one", "e" * 64, at=3)
    assert drafters.remove("one") == ONE
    assert (drafters.list(), drafters.bindings()) == ([], {})
    with pytest.raises(DrafterNotFound):
        drafters.remove("one")
