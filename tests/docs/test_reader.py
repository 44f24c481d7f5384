"""A page that is wrong is caught: what the other tests of this directory rely on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.page import WrongPage, read
from tests.docs.reader import Lost, follow
from tests.e2e.outrider_process import Outrider


@pytest.fixture
def outrider(tmp_path: Path) -> Outrider:
    """One that is never started: these pages have no use for it."""
    return Outrider(tmp_path, tmp_path / "cache")


def _follow(text: str, outrider: Outrider, tmp_path: Path) -> dict[str, str]:
    """Follow a page; the files it left, by name."""
    path, directory, gguf = tmp_path / "page.md", tmp_path / "reader", tmp_path / "x.gguf"
    path.write_text(text)
    gguf.write_text("weights")
    directory.mkdir()
    follow(read(path), outrider, directory, gguf)
    return {file.name: file.read_text() for file in directory.iterdir() if file.is_file()}


def _fenced(language: str, text: str, comment: str = "") -> str:
    return f"{comment}\n```{language}\n{text}\n```\n"


def test_one_shell_goes_through_the_page(outrider: Outrider, tmp_path: Path) -> None:
    page = [
        _fenced("console", "export WORD=one\ncat > here <<'END'\ntwo\nEND\necho \\\n  three > there"),
        _fenced("python", "import os, pathlib; pathlib.Path('word').write_text(os.environ['WORD'] + '\\n')"),
        _fenced("yaml", "a: it's $WORD", "<!-- file: spec.yaml -->"),
        _fenced("sh", "cat word here there"),
        _fenced("text", "one\ntwo 17\n… three"),
        "<!-- given: my.gguf -->\n\nText.\n",
    ]
    left = _follow("\n".join(page), outrider, tmp_path)
    assert left == {
        "here": "two\n",
        "there": "three\n",
        "word": "one\n",
        "spec.yaml": "a: it's $WORD\n",
        "my.gguf": "weights",
    }


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (_fenced("console", "true\nfalse\ntrue"), "exit 1 at: false"),
        (_fenced("console", "false | true"), "exit 1"),
        (_fenced("bash", "no-such-command"), "not found"),
        (_fenced("python", "raise SystemExit(3)"), "exit 3"),
        (_fenced("sh", "exit 4", "<!-- fails: 5 -->"), "exit 4 instead of 5"),
        (_fenced("sh", "true", "<!-- fails: 5 -->"), "exit 0 instead of 5"),
        (_fenced("sh", "echo one") + _fenced("text", "one\ntwo"), "'two' was not printed"),
        (_fenced("sh", "echo one; test $(cat /dev/stdin | wc -c) = 1"), "exit 1"),
    ],
)
def test_a_lost_reader_says_where(outrider: Outrider, tmp_path: Path, page: str, says: str) -> None:
    with pytest.raises(Lost, match=r"page\.md:\d+: ") as caught:
        _follow(page, outrider, tmp_path)
    assert says in str(caught.value)


def test_failures_that_the_page_shows_pass(outrider: Outrider, tmp_path: Path) -> None:
    shown = _fenced("sh", "echo sorry; exit 5", "<!-- fails: 5 -->") + _fenced("text", "sorry")
    assert _follow(shown + _fenced("sh", "echo on > on"), outrider, tmp_path) == {"on": "on\n"}


def test_what_a_benchmark_writes_stands_between_marks(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    marks = [f"<!-- gateway results: {edge} -->" for edge in ("begin", "end")]
    path.write_text(marks[0] + "\nText.\n\n" + _fenced("sh", "true") + marks[1] + "\n")
    assert [block.text for block in read(path).blocks] == ["true\n"]


def test_ports_of_the_page_are_the_private_ones(outrider: Outrider, tmp_path: Path) -> None:
    left = _follow(_fenced("sh", "echo 127.0.0.1:8080 127.0.0.1:8081 > ports"), outrider, tmp_path)
    assert left == {"ports": f"127.0.0.1:{outrider.port} 127.0.0.1:{outrider.api_port}\n"}


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (_fenced("", "true"), "not ''"),
        (_fenced("shell", "true"), "not 'shell'"),
        (_fenced("sh", "true", "<!-- not-run: because -->"), "nobody knows"),
        ("<!-- not run: because -->\n\nText.\n" + _fenced("sh", "true"), "none follows"),
    ],
)
def test_a_page_that_could_hide_a_block_is_refused(tmp_path: Path, page: str, says: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(page)
    with pytest.raises(WrongPage, match=r"page\.md:\d+") as caught:
        read(path)
    assert says in str(caught.value)
