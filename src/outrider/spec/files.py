"""Endpoints declared in files: every document of every file is checked before any of them is used.

A directory stands for the ``*.yaml`` and ``*.yml`` files in it, by name; not for those in directories below it, so that
what is applied is what is listed. A relative ``path:`` is meant from the directory of the file that it stands in.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.errors import InvalidSpec, Problem
from outrider.spec.documents import MarkedDocument, is_mapping, no_mapping, read_marked
from outrider.spec.endpoint import Endpoint, parse

STDIN = "-"
_SUFFIXES = (".yaml", ".yml")
_REFERENCES = ("model", "weights", "drafter")
_REMEDY = "Nothing was changed; correct it."


@dataclass(frozen=True, slots=True)
class Declared:
    """One endpoint of a file.

    Attributes:
        endpoint: its spec, paths made absolute.
        file: as the user named it, or as found in a directory.
        document: number in the file, from 1; empty documents are not counted.
        marked: the document with its lines.
    """

    endpoint: Endpoint
    file: str
    document: int
    marked: MarkedDocument

    @property
    def name(self) -> str:
        """The endpoint's."""
        return self.endpoint.label

    @property
    def line(self) -> int:
        """Where the document begins, from 1."""
        return self.marked.line("")

    def place(self, field: str = "") -> str:
        """``FILE:LINE`` of the document or of a field, as editors take it."""
        return f"{self.file}:{self.marked.line(field)}"

    def spec(self) -> dict[str, Any]:
        """What the file says, and no default."""
        return self.endpoint.model_dump(mode="json", exclude_unset=True)


def read_files(paths: Iterable[str]) -> list[Declared]:
    """All endpoints of files, directories and ``-`` (standard input), in order; a file named twice is read once.

    Raises:
        InvalidSpec: a file cannot be read, is no YAML, or has bad fields, an endpoint stands twice, or there is none at
            all; with every problem of every file, each with ``file``, ``line`` and, where known, ``document``.
    """
    found: list[Declared] = []
    bad: list[Problem] = []
    for path in dict.fromkeys(_listed(paths, bad)):
        try:
            found += _read(path)
        except InvalidSpec as error:
            bad += error.problems
    bad += _twice(found)
    if not found and not bad:
        bad.append(Problem(field="(file)", message="no document of these files declares an endpoint"))
    if bad:
        raise InvalidSpec("The endpoint's spec is not valid", bad, remedy=_REMEDY)
    return found


def _listed(paths: Iterable[str], bad: list[Problem]) -> Iterable[str]:
    for path in paths:
        try:
            inside = None if path == STDIN or not Path(path).is_dir() else sorted(Path(path).iterdir())
        except OSError as error:
            bad.append(_unread(path, error))
            continue
        if inside is None:
            yield path
            continue
        files = [entry for entry in inside if entry.suffix in _SUFFIXES and entry.name[0] != "." and entry.is_file()]
        if not files:
            bad.append(_problem(path, None, "(file)", "the directory holds no *.yaml or *.yml"))
        yield from map(str, files)


def _unread(path: str, error: OSError | UnicodeDecodeError) -> Problem:
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return _problem(path, None, "(file)", f"cannot be read: {why}")


def _read(path: str) -> list[Declared]:
    try:
        text = sys.stdin.read() if path == STDIN else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSpec("", [_unread(path, error)]) from error
    shown = "(standard input)" if path == STDIN else path
    directory = Path() if path == STDIN else Path(path).parent
    try:
        documents = read_marked(text)
    except InvalidSpec as error:
        line = error.details.get("line")
        raise InvalidSpec("", [_problem(shown, line, p["field"], p["message"]) for p in error.problems]) from error
    found, bad = [], []
    for number, document in enumerate(documents, 1):
        try:
            found.append(Declared(_parsed(document, number, directory), shown, number, document))
        except InvalidSpec as error:
            many = len(documents) > 1
            bad += [_located(problem, shown, document, number if many else None) for problem in error.problems]
    if bad:
        raise InvalidSpec("", bad)
    return found


def _parsed(document: MarkedDocument, number: int, directory: Path) -> Endpoint:
    if not is_mapping(document.data):
        raise InvalidSpec("", [no_mapping(document.data, number)])
    return parse(_anchored(document.data, directory))


def _anchored(data: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The spec with relative ``path:`` references made absolute."""
    made = dict(data)
    for field in _REFERENCES:
        value = made.get(field)
        if isinstance(value, str):
            made[field] = _absolute(value, directory)
        elif field == "drafter" and isinstance(value, dict) and isinstance(value.get("source"), str):
            made[field] = {**value, "source": _absolute(value["source"], directory)}
    if isinstance(adapters := made.get("adapters"), dict):
        made["adapters"] = {
            name: _absolute(value, directory) if isinstance(value, str) else value for name, value in adapters.items()
        }
    return made


def _absolute(reference: str, directory: Path) -> str:
    if not reference.startswith("path:") or reference == "path:":
        return reference
    return "path:" + os.path.normpath((directory / Path(reference[5:]).expanduser()).absolute())


def _located(problem: Problem, file: str, document: MarkedDocument, number: int | None) -> Problem:
    line = document.line(str(problem["field"]))
    where = "" if number is None else f"document {number}: "
    located = _problem(file, line, problem["field"], f"{where}{problem['message']}")
    more = {} if number is None else {"document": number}
    return Problem({**problem, **located, **more})


def _twice(found: list[Declared]) -> list[Problem]:
    first: dict[str, Declared] = {}
    bad = []
    for declared in found:
        before = first.setdefault(declared.name, declared)
        if before is not declared:
            message = f"the endpoint {declared.name!r} is declared already at {before.place()}"
            bad.append(_problem(declared.file, declared.line, "name", message))
    return bad


def _problem(file: str, line: int | None, field: str, message: str) -> Problem:
    place = file if line is None else f"{file}:{line}"
    return Problem(field=field, message=f"{place}: {message}", file=file, line=line)
