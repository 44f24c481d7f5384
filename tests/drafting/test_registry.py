from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.drafting.card import Card, CardData, CardTarget, read_card, write_card
from outrider.drafting.registry import Registry
from outrider.errors import DrafterExists, DrafterUnfit, InvalidName, WeightsUnreadable
from outrider.models.cache import Cache
from outrider.models.drafter_check import Target
from outrider.models.facts import read_facts
from outrider.models.tokenizer import read_tokenizer
from outrider.store.database import open_database
from outrider.store.drafters import Drafters
from tests.models.real import SHA256, smollm

from .random_drafter import SECOND, write

CARD = Card(
    name="small-dflash",
    parent="generic",
    target=CardTarget(name="SmolLM2", sha256=SHA256),
    data=CardData(manifest="e" * 64, examples=10, tokens=1000),
    hyperparameters={"steps": 3},
    modes=("non-thinking",),
    languages=("en",),
    max_context=2048,
    tau={"chat": 2.9, "json": 3.6},
)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    database = open_database(tmp_path / "store.db")
    yield Registry(Drafters(database), cache=Cache(tmp_path / "cache"), now=lambda: 7)
    database.close()


def drafter(tmp_path: Path, name: str = "mine", **changed: Any) -> str:
    directory = write(tmp_path / name, **changed)
    write_card(directory, CARD)
    (directory / "optimizer.pt").write_bytes(b"left out")
    return f"path:{directory}"


def target() -> Target:
    return Target(read_facts(smollm()), read_tokenizer(smollm()))


def test_a_drafter_is_taken_in_with_its_card(tmp_path: Path, registry: Registry) -> None:
    record = registry.add(drafter(tmp_path))
    assert registry.all() == [record] == [registry.get("small-dflash")]
    assert (record.method, record.kind, record.block_size, record.max_context) == ("dflash", "dflash", 8, 2048)
    assert (record.parent, record.modes, record.languages) == ("generic", ["non-thinking"], ["en"])
    assert record.target == {"name": "SmolLM2", "sha256": SHA256}
    assert record.data == {"manifest": "e" * 64, "examples": 10, "tokens": 1000}
    assert record.evaluation["tau"] == {"chat": 2.9, "json": 3.6}
    place = registry.path(record)
    assert sorted(path.name for path in place.iterdir()) == ["config.json", "drafter.json", "model.safetensors"]
    assert place.parent.name == record.sha256
    assert read_card(place) == CARD


def test_other_weights_need_another_name(tmp_path: Path, registry: Registry) -> None:
    first = registry.add(drafter(tmp_path))
    assert registry.add(f"path:{tmp_path}/mine") == first
    other = drafter(tmp_path, "other", block_size=4)
    with pytest.raises(DrafterExists):
        registry.add(other)
    with pytest.raises(InvalidName):
        registry.add(other, "two words")
    assert registry.add(other, "other").sha256 != first.sha256
    assert {record.name for record in registry.all()} == {"small-dflash", "other"}


def test_a_bound_drafter_is_found_by_its_targets_digest(tmp_path: Path, registry: Registry) -> None:
    registry.add(drafter(tmp_path))
    used = registry.use("small-dflash", SHA256, target())
    assert (used.record.name, used.target) == ("small-dflash", SHA256)
    assert registry.targets() == {"small-dflash": [SHA256]}
    bound = registry.bound()[SHA256]
    assert (bound.method, bound.tokens, bound.quantization, bound.acceptance_length) == ("dflash", 7, "none", 2.9)
    assert bound.reference == f"path:{registry.path(used.record)}"
    registry.release(SHA256)
    assert registry.bound() == {}


def test_a_drafter_that_cannot_draft_for_a_target_is_not_bound(tmp_path: Path, registry: Registry) -> None:
    registry.add(drafter(tmp_path, target_layer_ids=(1, 14, 26), num_target_layers=28))
    with pytest.raises(DrafterUnfit, match="made for a target of 28 layers, this one has 30") as caught:
        registry.use("small-dflash", SHA256, target())
    assert caught.value.details["findings"]
    assert registry.bound() == {}


def test_what_is_no_drafter_is_refused(tmp_path: Path, registry: Registry) -> None:
    directory = write(tmp_path / "mine", SECOND)
    (directory / "drafter.json").write_text('{"tau": {"chat": "much"}}')
    with pytest.raises(WeightsUnreadable, match=r"tau\.chat"):
        registry.add(f"path:{directory}")
    with pytest.raises(WeightsUnreadable, match="no drafter's directory"):
        registry.add(f"path:{directory}/config.json")
    assert registry.all() == []
