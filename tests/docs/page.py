"""The pages that readers follow, and the blocks of code on them.

A comment directly before a block says what is particular about it: ``<!-- file: NAME -->`` (it is written to that
file), ``<!-- fails: EXIT -->`` (its last command exits so) and ``<!-- not run: REASON -->``. ``<!-- given: NAME -->``
anywhere says that the reader has a GGUF file of that name, or, where it ends in ``/``, that directory of a checkout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
SHELL = ("console", "bash", "sh")
RUN = (*SHELL, "python", "yaml")
"""Languages of blocks that are run, or written to a file that others use."""
SHOWN = ("text", "json")
"""Languages of blocks that show what is printed, or draw something."""

_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
_DIRECTIVE = re.compile(r"(file|fails|not run|given): (.+)")
_MARK = re.compile(r"[\w ]+ results: (begin|end)")
"""Between two of these stands what a benchmark has written; a test of the benchmark compares it with its result."""
_PARSER = MarkdownIt("commonmark").enable("table")


class WrongPage(AssertionError):
    """A page that cannot be followed as it is written."""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        line: where it starts on the page, from 1.
        language: first word after the fence.
        file: name of the file it is, or None.
        fails: exit status of its last command, 0 where it succeeds.
        not_run: why it is not run, or None.
    """

    line: int
    language: str
    text: str
    file: str | None = None
    fails: int = 0
    not_run: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown file.

    Attributes:
        blocks: every fenced block, in order.
        given: names of the GGUF files, and of the checkout's directories (``examples/``), that its reader has.
        links: every link's target, as written.
        anchors: what a link can point to, as GitHub makes it of the headings.
    """

    path: Path
    blocks: tuple[Block, ...]
    given: tuple[str, ...]
    links: tuple[str, ...]
    anchors: frozenset[str]

    def __str__(self) -> str:
        """Its path in the repository."""
        return str(self.path.relative_to(ROOT)) if self.path.is_relative_to(ROOT) else self.path.name

    @property
    def runs(self) -> bool:
        """Whether anything on it is run."""
        return any(block.language in SHELL or block.language == "python" for block in self.blocks if not block.not_run)


def pages() -> list[Page]:
    """Every page of the repository."""
    paths = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]
    return [read(path) for path in sorted(paths)]


def read(path: Path) -> Page:
    """Read a page.

    Raises:
        WrongPage: a block without a known language, or a comment before one that says nothing known, or a comment about
            a block that stands before none.
    """
    blocks: list[Block] = []
    anchors: list[str] = []
    given: list[str] = []
    about: dict[str, str] = {}
    tokens = _PARSER.parse(path.read_text(encoding="utf-8"))
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        where = f"{path.name}:{(token.map or [0])[0] + 1}"
        if token.type == "html_block":
            about |= _said(token, where)
            continue
        if name := about.pop("given", None):
            given.append(name)
        if token.type == "fence":
            blocks.append(_block(token, about, where))
        elif about:
            raise WrongPage(f"{where}: {next(iter(about))!r} is said of a block, and none follows")
        elif token.type == "heading_open" and following is not None:
            anchors.append(_anchor(following.content))
        about = {}
    links = [target for token in tokens for target in _targets(token)]
    return Page(path, tuple(blocks), tuple(given), tuple(links), frozenset(anchors))


def _said(token: Token, where: str) -> dict[str, str]:
    said = {}
    for text in _COMMENT.findall(token.content):
        if _MARK.fullmatch(text):
            continue
        match = _DIRECTIVE.fullmatch(text)
        if match is None:
            raise WrongPage(f"{where}: nobody knows what this comment means: {text!r}")
        said[match[1]] = match[2]
    return said


def _block(token: Token, said: dict[str, str], where: str) -> Block:
    language = token.info.strip()
    if language not in (*RUN, *SHOWN):
        raise WrongPage(f"{where}: a block's language is one of {', '.join((*RUN, *SHOWN))}, not {language!r}")
    line = (token.map or [0])[0] + 1
    return Block(line, language, token.content, said.get("file"), int(said.get("fails", 0)), said.get("not run"))


def _anchor(heading: str) -> str:
    """As GitHub makes it: lower case, punctuation out, spaces to hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def _targets(token: Token) -> Iterator[str]:
    for child in token.children or ():
        for name in ("href", "src"):
            if isinstance(target := child.attrGet(name), str):
                yield target
