from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outrider.placement.log import GrowingLog

Follow = Callable[[int], GrowingLog]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "replica").mkdir()
    return tmp_path / "replica/replica.log"


@pytest.fixture
def follow(path: Path) -> Iterator[Follow]:
    """Follow the log from so many of its last lines on."""
    opened: list[GrowingLog] = []

    def call(lines: int) -> GrowingLog:
        opened.append(GrowingLog(path, lines))
        return opened[-1]

    yield call
    for log in opened:
        log.close()


def write(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("text", "lines", "first"),
    [
        ("a\nb\nc\n", 2, ["b", "c"]),
        ("a\nb\nc\n", 9, ["a", "b", "c"]),
        ("a\nb\nc", 2, ["b"]),
        ("\n\n\n", 2, ["", ""]),
        ("", 2, []),
        ("x" * 300_000 + "\nlast\n", 1, ["last"]),
        ("é\r\n\xff\n", 5, ["é", "\xff"]),
    ],
)
def test_it_begins_with_the_last_lines(follow: Follow, path: Path, text: str, lines: int, first: list[str]) -> None:
    write(path, text)
    assert follow(lines).read() == first


def test_only_what_is_new_is_read_and_whole_lines_only(follow: Follow, path: Path) -> None:
    write(path, "old\n" * 1000)
    log = follow(1)
    assert log.read() == ["old"]
    assert log.read() == []
    write(path, "ne")
    assert log.read() == []
    write(path, "w\nhalf")
    assert log.read() == ["new"]
    assert log.rest() == ["half"]
    assert log.rest() == []


def test_a_rotated_log_goes_on_in_the_new_file(follow: Follow, path: Path) -> None:
    write(path, "1\n")
    log = follow(10)
    assert log.read() == ["1"]
    write(path, "2\n3")
    path.rename(path.with_name("replica.log.1"))
    write(path, "4\n")
    assert [log.read() for _ in range(3)] == [["2"], ["3"], ["4"]]


def test_a_truncated_log_is_read_from_its_beginning(follow: Follow, path: Path) -> None:
    write(path, "long line\n")
    log = follow(10)
    assert log.read() == ["long line"]
    path.write_text("new\n")
    assert log.read() == ["new"]


def test_what_was_written_last_is_read_after_the_replica_is_removed(follow: Follow, path: Path) -> None:
    write(path, "1\n")
    log = follow(10)
    assert log.read() == ["1"]
    write(path, "last\nwords")
    shutil.rmtree(path.parent)
    assert log.rest() == ["last", "words"]
    assert log.read() == []
    log.close()
    assert log.read() == []


def test_a_log_that_is_not_there_yet_is_waited_for(follow: Follow, path: Path) -> None:
    log = follow(10)
    assert log.read() == []
    assert log.rest() == []
    write(path, "1\n")
    assert log.read() == ["1"]


def test_a_line_without_end_is_cut(follow: Follow, path: Path) -> None:
    log = follow(10)
    write(path, "x" * 600_000 + "\nnext\n")
    pieces = [log.read() for _ in range(4)]
    assert [[len(line) for line in piece] for piece in pieces] == [[], [524_288], [75_712, 4], []]
