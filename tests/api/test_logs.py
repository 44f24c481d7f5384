from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from outrider.api.logs import Following, Piece, newest, stream
from outrider.errors import EndpointNotFound


class Lines:
    """A log in memory."""

    def __init__(self, *lines: str) -> None:
        self.new = list(lines)
        self.last: list[str] = []
        self.closed = False

    def read(self) -> list[str]:
        """See ``Log``."""
        found, self.new = self.new, []
        return found

    def rest(self) -> list[str]:
        """See ``Log``."""
        found, self.new, self.last = [*self.new, *self.last], [], []
        return found

    def close(self) -> None:
        """See ``Log``."""
        self.closed = True


class House:
    """Replicas and their logs."""

    def __init__(self, *ids: str) -> None:
        self.ids: list[str] | None = list(ids)
        self.logs = {name: Lines(f"{name}1") for name in ("a", "b", "c")}
        self.opened: list[tuple[str, int]] = []

    def replicas(self) -> list[dict[str, Any]]:
        """Their views."""
        if self.ids is None:
            raise EndpointNotFound("gone")
        return [{"id": name, "created_at": ord(name)} for name in self.ids]

    def open(self, replica: str, lines: int) -> Lines | None:
        """The log of one."""
        self.opened.append((replica, lines))
        return self.logs.get(replica)

    def follow(self, wanted: str = "latest") -> Following:
        """Follow them."""
        return Following(self.replicas, self.open, wanted, 7)


def test_the_newest_is_the_latest() -> None:
    replicas = House("a", "c", "b").replicas()
    assert [newest(replicas, wanted) for wanted in ("latest", "a", "x")] == ["c", "a", None]
    assert newest([], "latest") is None


def test_it_goes_on_with_the_next_replica_after_the_last_words_of_the_one_before() -> None:
    house = House("a")
    following = house.follow()
    assert following.look() == [Piece("a", []), Piece("a", ["a1"])]
    assert following.look() == []
    house.logs["a"].new, house.logs["a"].last = ["a2"], ["a3"]
    house.ids = ["b"]
    assert following.look() == [Piece("a", ["a2", "a3"]), Piece("b", []), Piece("b", ["b1"])]
    assert house.logs["a"].closed
    assert house.opened == [("a", 7), ("b", 10_000)]


def test_between_two_replicas_it_waits() -> None:
    house = House("a")
    following = house.follow()
    following.look()
    house.ids, house.logs["a"].last = [], ["died"]
    assert following.look() == [Piece("a", ["died"])]
    assert following.look() == []
    assert not following.over
    house.ids = ["x"]  # gone before it could be opened
    assert following.look() == []
    house.ids = ["c"]
    assert following.look()[0] == Piece("c", [])


def test_a_named_replica_ends_with_it() -> None:
    house = House("a", "b")
    following = house.follow("a")
    assert following.look() == [Piece("a", []), Piece("a", ["a1"])]
    house.ids, house.logs["a"].last = ["b"], ["last"]
    assert following.look() == [Piece("a", ["last"])]
    assert following.over


def test_it_ends_when_the_endpoint_is_removed() -> None:
    house = House("a")
    following = house.follow()
    following.look()
    house.ids, house.logs["a"].last = None, ["last"]
    assert following.look() == [Piece("a", ["last"])]
    assert following.over


async def events(source: AsyncIterator[str]) -> list[dict[str, Any]]:
    return [json.loads(event.partition("data: ")[2]) async for event in source]


async def test_the_stream_tells_that_there_is_none_yet_and_closes_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    house = House()

    async def appear(_: float) -> None:
        house.ids = ["a"] if house.ids == [] else None

    monkeypatch.setattr("outrider.api.logs.asyncio.sleep", appear)
    assert await events(stream(house.follow())) == [
        {"replica": None, "lines": []},
        {"replica": "a", "lines": []},
        {"replica": "a", "lines": ["a1"]},
    ]
    assert house.logs["a"].closed
