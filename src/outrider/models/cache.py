"""The content-addressed cache of weights: ``OUTRIDER_CACHE/blobs/sha256/DIGEST/NAME``.

A blob is written to a partial file beside its place, checked, and renamed: what stands there is whole. Who wants the same
file at the same time waits for the first.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from outrider.app.server import Progress, Report
from outrider.errors import DiskFull, OutriderError, PermissionRefused, WeightsCorrupt

_CHUNK = 4 * 1024 * 1024
_MARGIN = 64 * 1024 * 1024
"""Bytes that stay free: a file system filled to the last byte breaks more than a download."""


class Cache:
    """Blobs by digest, and what digest a reference had."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def from_environment(cls) -> Cache:
        """``OUTRIDER_CACHE``, by default ``~/.cache/outrider``."""
        return cls(Path(os.environ.get("OUTRIDER_CACHE") or Path.home() / ".cache/outrider").expanduser().absolute())

    def find(self, sha256: str) -> Path | None:
        """The blob of a digest, if it is here."""
        directory = self._blobs / sha256
        if not directory.is_dir():
            return None
        return next((path for path in directory.iterdir() if not path.name.startswith(".")), None)

    def known(self, reference: str) -> Path | None:
        """The blob that a reference without a digest gave before."""
        try:
            return self.find((self.root / "references" / _key(reference)).read_text())
        except OSError:
            return None

    @contextmanager
    def lock(self, reference: str) -> Iterator[None]:
        """Hold a reference: two processes do not fetch one file twice."""
        with guard(self.root):
            directory = self.root / "locks"
            directory.mkdir(parents=True, exist_ok=True)
            file = (directory / _key(reference)).open("w")
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def partial(self, reference: str) -> Path:
        """Where an unfinished file of a reference lies; it is found again by the next try (resume)."""
        with guard(self.root):
            directory = self.root / "partial"
            directory.mkdir(parents=True, exist_ok=True)
        return directory / _key(reference)

    def admit(self, partial: Path, reference: str, name: str, sha256: str | None, report: Report) -> Path:
        """Check a finished partial file and give it its place.

        Raises:
            WeightsCorrupt: the digest differs; the partial file is removed.
        """
        found = digest(partial, report)
        if sha256 is not None and found != sha256:
            size = partial.stat().st_size
            partial.unlink()
            raise WeightsCorrupt(
                f"{reference} is not the file that was promised",
                why=f"its {size:,} bytes have SHA-256 {found[:12]}…, expected {sha256[:12]}…",
                remedy="The partial file was removed; try again, or correct the digest.",
            )
        place = self._blobs / found / name
        with guard(self.root):
            place.parent.mkdir(parents=True, exist_ok=True)
            partial.replace(place)
            references = self.root / "references"
            references.mkdir(exist_ok=True)
            (references / _key(reference)).write_text(found)
        return place

    def require_free(self, need: int) -> None:
        """Raises DiskFull unless ``need`` bytes fit."""
        with guard(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.root).free
        if free < need + _MARGIN:
            raise DiskFull(
                f"Not enough disk under {self.root}",
                why=f"{need:,} bytes are needed, {free:,} are free",
                remedy="Free some, or set OUTRIDER_CACHE to another disk.",
            )

    @property
    def _blobs(self) -> Path:
        return self.root / "blobs/sha256"


def digest(path: Path, report: Report) -> str:
    """SHA-256 of a file, with progress."""
    total, done = path.stat().st_size, 0
    state = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            state.update(chunk)
            done += len(chunk)
            report(Progress("checking weights", done, total))
    return state.hexdigest()


def checked_in_place(path: Path, sha256: str, memory: Path, report: Report) -> None:
    """Check a file that is used where it lies; the answer is remembered for the same inode, size and time.

    Raises:
        WeightsCorrupt
    """
    status = path.stat()
    stamp = [str(path), status.st_ino, status.st_size, status.st_mtime_ns]
    note = memory / "checked" / _key(str(path))
    try:
        remembered = json.loads(note.read_text())
    except (OSError, ValueError):
        remembered = None
    found = remembered["sha256"] if remembered and remembered["stamp"] == stamp else digest(path, report)
    if found != sha256:
        raise WeightsCorrupt(
            f"{path} is not the file that was promised",
            why=f"SHA-256 {found[:12]}…, expected {sha256[:12]}…",
            remedy="Give the right file, or correct the digest.",
        )
    with guard(memory):
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps({"stamp": stamp, "sha256": found}))


@contextmanager
def guard(where: Path) -> Iterator[None]:
    """Turn the operating system's refusals into ours."""
    try:
        yield
    except OutriderError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"No space under {where}", remedy="Free some, or set OUTRIDER_CACHE elsewhere.") from error
        raise PermissionRefused(
            f"Cannot write under {where}", why=error.strerror, remedy="Set OUTRIDER_CACHE to a directory you may write."
        ) from error


def _key(reference: str) -> str:
    return hashlib.sha256(reference.encode()).hexdigest()
