"""Unified diffs onto installed files: read, named by digest, applied."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outrider.errors import EnvironmentFailed, InvalidSource

SHIPPED = Path(__file__).with_name("patches")
"""The directory of the diffs that ship with Outrider."""
_PREFIX = "outrider:"


@dataclass(frozen=True, slots=True)
class Patch:
    """One unified diff, its paths relative to ``site-packages`` (as ``patch -p1`` reads them).

    Attributes:
        name: how it is called in messages.
        text: the diff.
    """

    name: str
    text: str

    @property
    def sha256(self) -> str:
        """Hex digest of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def apply(self, directory: Path) -> None:
        """Change the files. What it changes is first unlinked from uv's cache, with which installed files are shared.

        Raises:
            EnvironmentFailed: it does not fit the files; some of them may have been changed.
        """
        import patch_ng

        with _complaints() as said:
            parsed = patch_ng.fromstring(self.text.encode())
            if not parsed or parsed.errors:
                raise self._failed("it is no unified diff")
            for item in parsed.items:
                target = _target(directory, item.target if b"dev/null" not in item.target else item.source)
                if target is None:
                    raise self._failed("it leaves the environment")
                if b"dev/null" in item.source and target.exists():
                    raise self._failed(f"{target.relative_to(directory)} is there already")
                if b"dev/null" not in item.source and not target.is_file():
                    raise self._failed(f"there is no {target.relative_to(directory)}")
                if b"dev/null" in item.target and not _is_removed_whole(target, item.hunks):
                    raise self._failed("the installed files are not the ones it was made for")
                _unshare(target)
            before = Path.cwd()
            try:
                fits = parsed.apply(root=str(directory))
            finally:
                os.chdir(before)
            if not fits or any("already patched" in line for line in said):
                raise self._failed("the installed files are not the ones it was made for")

    def _failed(self, why: str) -> EnvironmentFailed:
        return EnvironmentFailed(
            f"Could not apply {self.name}",
            why=why,
            remedy="Pin the version that the patch was made for, or correct it.",
        )


def read(reference: str, number: int) -> Patch:
    """A patch as ``Environment(patches=…)`` names it: the text of a diff, or ``outrider:NAME`` for a shipped one.

    Raises:
        InvalidSource: no shipped patch of that name.
    """
    if not reference.startswith(_PREFIX):
        return Patch(f"patch {number}", reference)
    name = reference.removeprefix(_PREFIX)
    known = {path.name: path for path in sorted(SHIPPED.glob("*.patch"))}
    if name not in known:
        raise InvalidSource(f"Outrider ships no patch {name!r}", remedy=f"It ships: {', '.join(known)}.")
    return Patch(reference, known[name].read_text(encoding="utf-8"))


def _target(directory: Path, name: bytes) -> Path | None:
    """Where a path of a diff points; None: outside."""
    path = name.decode("utf-8", "replace")
    inside = path[2:] if path.startswith(("a/", "b/")) else path
    found = (directory / inside).resolve()
    return found if found.is_relative_to(directory.resolve()) and found != directory.resolve() else None


def _is_removed_whole(path: Path, hunks: Sequence[Any]) -> bool:
    """Whether the lines that a diff removes are all that the file has; patch_ng itself would not look."""
    removed = [line[1:].rstrip(b"\r\n") for hunk in hunks for line in hunk.text if line.startswith(b"-")]
    return path.read_bytes().splitlines() == removed


def _unshare(path: Path) -> None:
    if path.is_file() and path.stat().st_nlink > 1:
        copy = path.with_name(f"{path.name}.unshared")
        shutil.copy2(path, copy)
        copy.replace(path)


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """What patch_ng logs while it works; it is not for the log of the replica."""
    said: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger, handler = logging.getLogger("patch_ng"), Collect()
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated
