"""The content-addressed cache of weights: ``OUTRIDER_CACHE/blobs/sha256/DIGEST/NAME``.

A blob is fetched into a workspace (``partial/KEY.part``), checked, and renamed: what stands under ``blobs`` is whole.
Who wants the same blob at the same time waits for the first. A workspace outlives a failed try, so that the next one
resumes; a wrong digest removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from outrider.app.server import Progress, Report
from outrider.errors import DiskFull, InvalidReference, WeightsCorrupt
from outrider.models.digests import DigestMemory, digest, size
from outrider.models.growth import tree_bytes
from outrider.spec.home import Home
from outrider.spec.writing import guard

_MARGIN = 64 * 1024 * 1024
"""Bytes that stay free: a file system filled to the last byte breaks more than a download."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Blob:
    """One file or directory of the cache.

    Attributes:
        sha256: its digest.
        name: of the file or directory.
        path: where it lies.
        bytes: its size.
        used_at: when it was last asked for, UTC ms.
        references: what it was fetched as, the first known first; empty where an earlier Outrider fetched it.
    """

    sha256: str
    name: str
    path: Path
    bytes: int
    used_at: int
    references: tuple[str, ...] = ()


class Cache:
    """Blobs by digest, and what digest a reference had."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.memory = DigestMemory(root / "checked")

    @classmethod
    def from_environment(cls) -> Cache:
        """``OUTRIDER_CACHE``, by default ``~/.cache/outrider``."""
        return cls(Home.from_environment().cache)

    def blobs(self) -> list[Blob]:
        """Everything in the cache, by name."""
        found, references = [], self._references()
        for directory in self._blobs.iterdir() if self._blobs.is_dir() else ():
            path = _content(directory)
            if path is not None:
                used = directory.stat().st_mtime_ns // 1_000_000
                known = tuple(references.get(directory.name, ()))
                found.append(Blob(directory.name, path.name, path, size(path), used, known))
        return sorted(found, key=lambda blob: (blob.name, blob.sha256))

    def unfinished(self, reference: str | None = None) -> int:
        """Bytes of fetches that were cut short: of one reference, or of all."""
        partial = self.root / "partial"
        return tree_bytes(partial if reference is None else partial / f"{_key(reference)}.part")

    def find(self, sha256: str, report: Report) -> Path | None:
        """The blob of a digest, if it is here and still what it was; a damaged one is removed."""
        path = _content(self._blobs / check_digest(sha256))
        if path is None:
            return None
        if self.memory.digest(path, report) == sha256:
            with contextlib.suppress(OSError):
                os.utime(path.parent)  # what `used_at` reads
            return path
        report(Progress("the cached weights are damaged: fetching them again"))
        self.remove(sha256)
        return None

    def known(self, reference: str, report: Report) -> Path | None:
        """The blob that a reference without a digest gave the first time: a restart never changes a model."""
        sha256 = self.remembered(reference)
        return None if sha256 is None else self.find(sha256, report)

    def remembered(self, reference: str) -> str | None:
        """The digest that a reference had the first time, whether or not its blob is still here."""
        note = _note(self.root / "references" / _key(reference))
        return note[0] if note else None

    def references_of(self, sha256: str) -> tuple[str, ...]:
        """The references that were fetched as this digest, whether or not its blob is still here."""
        return tuple(self._references().get(sha256, ()))

    def verify(self, sha256: str, report: Report) -> bool:
        """Read a blob whole, whatever is remembered of it; False: it is damaged. It stays where it is."""
        path = _content(self._blobs / check_digest(sha256))
        if path is None:
            return False
        self.memory.forget(path)
        return self.memory.digest(path, report) == sha256

    def remove(self, sha256: str) -> int:
        """Remove a blob; the bytes set free (0: there was none)."""
        directory = self._blobs / check_digest(sha256)
        path = _content(directory)
        if path is None:
            return 0
        freed = size(path)
        with guard(self.root):
            shutil.rmtree(directory)
        self.memory.forget(path)
        return freed

    @contextmanager
    def lock(self, key: str, report: Report) -> Iterator[None]:
        """Hold a digest or a reference: two processes do not fetch one file twice. The kernel frees it on death."""
        with guard(self.root):
            directory = self.root / "locks"
            directory.mkdir(parents=True, exist_ok=True)
            file = (directory / _key(key)).open("w")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report(Progress("waiting for another process that fetches the same weights"))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def workspace(self, reference: str) -> Path:
        """Where an unfinished fetch lies; the next try finds it again and resumes."""
        directory = self.root / "partial" / f"{_key(reference)}.part"
        with guard(self.root):
            directory.mkdir(parents=True, exist_ok=True)
        return directory

    def admit(self, fetched: Path, reference: str, sha256: str | None, report: Report) -> Path:
        """Check what was fetched into the workspace of ``reference`` and give it its place; the workspace goes.

        Raises:
            WeightsCorrupt: the digest differs; what was fetched is removed.
        """
        found = digest(fetched, report)
        if sha256 is not None and found != sha256:
            count = size(fetched)
            self.discard(reference)
            raise WeightsCorrupt(
                f"{reference} is not what was promised",
                why=f"its {count:,} bytes have SHA-256 {found[:12]}…, expected {sha256[:12]}…",
                remedy="The partial file was removed; try again, or correct the digest.",
                details={"expected": sha256, "found": found, "bytes": count},
            )
        place = self._blobs / found / fetched.name
        with guard(self.root):
            if not place.exists():
                _flush(fetched)
                place.parent.mkdir(parents=True, exist_ok=True)
                fetched.replace(place)
            references = self.root / "references"
            references.mkdir(exist_ok=True)
            (references / _key(reference)).write_text(f"{found}\n{reference}\n")
        self.memory.remember_now(place, found)
        self.discard(reference)
        return place

    def discard(self, reference: str) -> None:
        """Remove the workspace of a reference."""
        shutil.rmtree(self.root / "partial" / f"{_key(reference)}.part", ignore_errors=True)

    def require_free(self, need: int) -> None:
        """Raises DiskFull unless ``need`` bytes fit, and PermissionRefused where nothing may be written."""
        with guard(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.root).free
        if free < need + _MARGIN:
            raise DiskFull(
                f"Not enough disk under {self.root}",
                why=f"{need:,} bytes are needed, {free:,} are free",
                remedy="Free some, or set OUTRIDER_CACHE to another disk.",
                details={"needed": need, "free": free},
            )

    def _references(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        directory = self.root / "references"
        for path in sorted(directory.iterdir(), key=_age) if directory.is_dir() else ():
            note = _note(path)
            if note and len(note) > 1:
                found.setdefault(note[0], []).append(note[1])
        return found

    @property
    def _blobs(self) -> Path:
        return self.root / "blobs/sha256"


def check_digest(sha256: str) -> str:
    """The digest as it came. Raises InvalidReference unless it is 64 lower-case hex digits."""
    if not _SHA256.fullmatch(sha256):
        raise InvalidReference(
            f"sha256={sha256!r} is no SHA-256 digest",
            why="64 lower-case hex digits are expected",
            remedy="Copy it from sha256sum.",
        )
    return sha256


def _content(directory: Path) -> Path | None:
    try:
        return next((path for path in directory.iterdir() if not path.name.startswith(".")), None)
    except OSError:
        return None


def _note(path: Path) -> list[str]:
    """The digest of a reference and, since it is written, the reference; nothing if there is no such note."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _age(path: Path) -> tuple[int, str]:
    return path.stat().st_mtime_ns, path.name


def _flush(path: Path) -> None:
    # Renamed but not yet on disk, a file would come back empty after a power cut, under a name that promises more.
    for file in [path] if path.is_file() else [entry for entry in path.rglob("*") if entry.is_file()]:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _key(reference: str) -> str:
    return hashlib.sha256(reference.encode()).hexdigest()
