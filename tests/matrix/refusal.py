"""A refusal in whatever shape it came, and what every one of them must be."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from outrider.cli.error_reference import kinds
from outrider.errors import OutriderError

KINDS = {kind.code: kind for kind in kinds()}
"""Every documented code with its class; docs/reference/errors.md is made from the same."""

_JARGON = re.compile(r"Traceback|<class |<[\w.]+ object at|ValidationError|pydantic|OutriderError|Errno")
_LONGEST = 2500


@dataclass(frozen=True)
class Refusal:
    """One error as it reached somebody.

    Attributes:
        number: exit code of a command, HTTP status of an answer.
    """

    code: str
    number: int
    what: str
    why: str | None
    remedy: str

    @classmethod
    def of_error(cls, error: OutriderError) -> Refusal:
        """Of an exception, as the command line would show it."""
        return cls(error.code, error.exit_code, error.what, error.why, error.remedy)

    @classmethod
    def of_problem(cls, problem: Mapping[str, Any], number: int) -> Refusal:
        """Of problem details."""
        return cls(problem["code"], number, problem["title"], problem.get("detail"), problem["remedy"])

    @classmethod
    def of_json(cls, printed: str, number: int) -> Refusal:
        """Of what a command printed with ``--json``."""
        return cls.of_problem(json.loads(printed), number)

    @classmethod
    def of_lines(cls, printed: str, code: str, number: int) -> Refusal:
        """Of what a command printed for people; the code is not among it."""
        what, *rest = printed.splitlines()
        assert what.startswith("error: "), printed
        why = rest.pop(0).removeprefix("  why:  ") if rest[0].startswith("  why:  ") else None
        assert rest[0].startswith("  next: "), printed
        assert all(line.startswith(("  note:", "  log:", "    ")) for line in rest[1:]), printed
        return cls(code, number, what.removeprefix("error: "), why, rest[0].removeprefix("  next: "))


def check_refusal(found: Refusal, code: str, says: str, *, http: bool = False) -> None:
    """The code that was expected, its documented number, and lines that a person can use.

    Args:
        says: what must stand in one of the lines.
        http: the number is an HTTP status, not an exit code.
    """
    assert found.code == code, found
    kind = KINDS[code]
    assert found.number == (kind.status if http else kind.exit_code), found
    assert says in f"{found.what}\n{found.why}\n{found.remedy}", found
    for line in (found.what, found.remedy, *([] if found.why is None else [found.why])):
        check_line(line)


def check_line(line: str) -> None:
    """One line of words: nothing empty, no traceback, no name of a class that only programmers know."""
    assert line.strip() == line != "", repr(line)
    assert len(line.splitlines()) == 1, line
    assert not _JARGON.search(line), line
    assert len(line) < _LONGEST, f"{len(line)} characters: {line[:200]}…"
