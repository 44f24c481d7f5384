"""Every page holds: its commands run, its links lead somewhere, its translation shows the same blocks."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.page import ROOT, RUN, Page, pages, read
from tests.docs.reader import follow
from tests.e2e.outrider_process import Outrider

PAGES = pages()
TRANSLATIONS = {"README.zh-CN.md": "README.md"}
"""Pages whose blocks are those of another, which is run."""
NOT_RUN = {
    "not on PyPI yet": "pip install of the package itself",
    "builds or tests a checkout": "make and what it runs, which would run these tests in themselves",
    "fetches from the hub": "weights that tests do not download",
    "trains a drafter": "what takes a model of the reader's own, torch and minutes: tests/drafting does it in small",
    "needs a GPU": "engines that do not run on a CPU",
    "changes your shell": "what writes into the reader's own start-up files",
    "needs files of yours": "what only the reader has, an adapter say",
}
"""Why a block may go unrun, and what such blocks are. A new reason is a decision: add it here, in the same commit."""

MEASURES = {"docs/guides/tuning.md"}
"""Pages that compare speeds, which other tests beside them would disturb."""


def _followed() -> list[object]:
    followed = [page for page in PAGES if page.runs and str(page) not in TRANSLATIONS]
    return [pytest.param(p, id=str(p), marks=[pytest.mark.tuning] if str(p) in MEASURES else []) for p in followed]


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", _followed())
def test_a_reader_gets_what_the_page_says(page: Page, outrider: Outrider, tmp_path: Path, gguf: Path) -> None:
    directory = tmp_path / "reader"
    directory.mkdir()
    follow(page, outrider, directory, gguf)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_what_is_not_run_has_a_known_reason(page: Page) -> None:
    for block in page.blocks:
        assert block.not_run is None or block.not_run in NOT_RUN, f"{page}:{block.line}: {block.not_run!r}"


def test_most_blocks_are_run() -> None:
    blocks = [block for page in PAGES for block in page.blocks if block.language in RUN]
    assert len([block for block in blocks if block.not_run]) < len(blocks) / 4


@pytest.mark.parametrize(("translation", "original"), TRANSLATIONS.items())
def test_a_translation_shows_the_same_blocks(translation: str, original: str) -> None:
    ours, theirs = read(ROOT / translation), read(ROOT / original)
    for mine, other in zip(ours.blocks, theirs.blocks, strict=True):
        where = f"{translation}:{mine.line} is not {original}:{other.line}"
        assert (mine.language, mine.text) == (other.language, other.text), where
        assert (mine.file, mine.fails, mine.not_run) == (other.file, other.fails, other.not_run), where


@pytest.mark.parametrize(("translation", "original"), TRANSLATIONS.items())
def test_a_translation_leads_to_the_same_pages(translation: str, original: str) -> None:
    ours, theirs = set(read(ROOT / translation).links), set(read(ROOT / original).links)
    assert ours - {original} == theirs - {translation}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_somewhere(page: Page) -> None:
    for link in page.links:
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (page.path.parent / name).resolve() if name else page.path
        assert target.is_relative_to(ROOT) and target.exists(), f"{page}: {link}"
        if anchor:
            assert anchor in read(target).anchors, f"{page}: {link}"


def test_every_page_can_be_found() -> None:
    """From the README, by links alone."""
    known = {page.path: page for page in PAGES}
    seen: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = known.get(todo.pop())
        if page is None or page.path in seen:
            continue
        seen.add(page.path)
        todo += [(page.path.parent / link.partition("#")[0]).resolve() for link in page.links if "://" not in link]
    assert sorted(map(str, (known[path] for path in set(known) - seen))) == []
