from __future__ import annotations

import pytest
from sqlalchemy.exc import IntegrityError

from outrider.errors import RevisionNotFound
from outrider.store.database import Database
from outrider.store.endpoints import Endpoints
from outrider.store.revisions import Revisions


def _append(revisions: Revisions, endpoint: str, source: str) -> int:
    return revisions.append(
        endpoint, digest="d" * 64, source=source, plan={"é": [1]}, declaration={"app": "a"}, origin="planned", at=7
    )


def test_numbers_count_per_endpoint_and_the_source_stays_to_the_byte(database: Database) -> None:
    revisions = Revisions(database)
    for name in ("a", "b"):
        Endpoints(database).insert(name, None, at=1)
    source = 'x = "é\\x00\t"\r\n# \u202e\n'
    assert [_append(revisions, "a", source), _append(revisions, "a", "2"), _append(revisions, "b", "1")] == [1, 2, 1]
    first = revisions.get("a", 1)
    assert first.source == source
    assert (first.plan, first.declaration, first.status, first.reason) == ({"é": [1]}, {"app": "a"}, "new", None)
    assert [record.number for record in revisions.list("a")] == [1, 2]


def test_only_the_status_changes(database: Database) -> None:
    revisions = Revisions(database)
    Endpoints(database).insert("a", None, at=1)
    _append(revisions, "a", "s")
    before = revisions.get("a", 1)
    revisions.set_status("a", 1, "failed", reason="no weights")
    after = revisions.get("a", 1)
    assert (after.status, after.reason) == ("failed", "no weights")
    assert (after.source, after.digest, after.created_at) == (before.source, before.digest, before.created_at)


def test_a_revision_needs_its_endpoint(database: Database) -> None:
    with pytest.raises(IntegrityError):
        _append(Revisions(database), "absent", "s")


def test_an_absent_one_is_not_found(database: Database) -> None:
    with pytest.raises(RevisionNotFound, match="no revision 3"):
        Revisions(database).get("a", 3)
