from __future__ import annotations

from outrider.store.database import Database
from outrider.store.events import Events


def _append(events: Events, endpoint: str | None, message: str) -> int:
    return events.append(
        at=1, endpoint=endpoint, replica=None, revision=None, kind="k", reason="", message=message, data={"m": message}
    )


def _messages(events: Events, endpoint: str | None = None, *, after: int = 0, limit: int = 200) -> list[str]:
    return [event.message for event in events.list(endpoint, after=after, limit=limit)]


def test_the_newest_are_kept_for_each_endpoint_apart(database: Database) -> None:
    events = Events(database, kept=3)
    for number in range(5):
        _append(events, "busy", str(number))
    _append(events, "quiet", "q")
    for number in range(4):
        _append(events, None, f"n{number}")
    assert _messages(events, "busy") == ["2", "3", "4"]
    assert _messages(events, "quiet") == ["q"]
    assert _messages(events)[-3:] == ["n1", "n2", "n3"]


def test_without_an_id_the_newest_come_oldest_first(database: Database) -> None:
    events = Events(database)
    for number in range(5):
        _append(events, "a", str(number))
    assert _messages(events, "a", limit=2) == ["3", "4"]


def test_a_follower_misses_none_however_small_its_pages(database: Database) -> None:
    events = Events(database)
    ids = [_append(events, "a", str(number)) for number in range(5)]
    after, seen = ids[0], []
    while page := events.list("a", after=after, limit=2):
        seen += [event.message for event in page]
        after = page[-1].id
    assert seen == ["1", "2", "3", "4"]


def test_an_id_is_never_used_again(database: Database) -> None:
    events = Events(database)
    first = _append(events, "a", "x")
    events.delete("a")
    assert _messages(events, "a") == []
    assert _append(events, "a", "y") > first
