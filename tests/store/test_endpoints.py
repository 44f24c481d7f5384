from __future__ import annotations

import pytest

from outrider.errors import EndpointExists, EndpointNotFound, GenerationMismatch
from outrider.store.database import Database
from outrider.store.endpoints import Endpoints
from outrider.store.revisions import Revisions


def test_each_change_counts_the_generation_up(database: Database) -> None:
    endpoints = Endpoints(database)
    endpoints.insert("a", None, at=1)
    endpoints.update("a", at=2, desired="stopped", expected=1)
    record = endpoints.get("a")
    assert (record.generation, record.desired, record.created_at, record.updated_at) == (2, "stopped", 1, 2)


def test_an_expected_generation_that_passed_is_refused_and_changes_nothing(database: Database) -> None:
    endpoints = Endpoints(database)
    endpoints.insert("a", None, at=1)
    endpoints.update("a", at=2)
    with pytest.raises(GenerationMismatch, match="changed meanwhile"):
        endpoints.update("a", at=3, desired="stopped", expected=1)
    assert endpoints.get("a").desired == "running"


def test_two_of_one_name_are_refused(database: Database) -> None:
    endpoints = Endpoints(database)
    endpoints.insert("a", {"model": "first"}, at=1)
    with pytest.raises(EndpointExists, match="'a' already"):
        endpoints.insert("a", {"model": "second"}, at=2)
    assert endpoints.get("a").spec == {"model": "first"}


@pytest.mark.parametrize("hostile", ["absent", "'; DROP TABLE endpoints; --", "ünï\x00"])
def test_an_absent_one_is_not_found(database: Database, hostile: str) -> None:
    endpoints = Endpoints(database)
    with pytest.raises(EndpointNotFound):
        endpoints.get(hostile)
    with pytest.raises(EndpointNotFound):
        endpoints.update(hostile, at=1)
    endpoints.delete(hostile)
    assert endpoints.list() == []


def test_deleting_takes_the_revisions_along(database: Database) -> None:
    endpoints, revisions = Endpoints(database), Revisions(database)
    for name in ("a", "b"):
        endpoints.insert(name, None, at=1)
        revisions.append(name, digest="d", source="s", plan=None, declaration={}, origin="deployed", at=1)
    endpoints.delete("a")
    assert revisions.list("a") == []
    assert len(revisions.list("b")) == 1


def test_endpoint_and_first_revision_are_made_together_or_not_at_all(database: Database) -> None:
    endpoints, revisions = Endpoints(database), Revisions(database)
    with pytest.raises(EndpointNotFound), database.begin() as connection:
        endpoints.insert("a", None, at=1, connection=connection)
        revisions.append(
            "a", digest="d", source="s", plan=None, declaration={}, origin="planned", at=1, connection=connection
        )
        endpoints.update("absent", at=1, connection=connection)
    assert (endpoints.list(), revisions.list("a")) == ([], [])
