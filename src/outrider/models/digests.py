"""SHA-256 of weights, computed once for each state of a file.

A directory has a digest, too: that of its manifest, one line ``SHA256  relative/path`` a file in order of path (what
``sha256sum`` prints), hidden files left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from outrider.app.server import Progress, Report

_CHUNK = 4 * 1024 * 1024


def digest(path: Path, report: Report) -> str:
    """SHA-256 of a file, or of a directory's manifest; reports the bytes read."""
    total, done = size(path), 0

    def one(file: Path) -> str:
        nonlocal done
        state = hashlib.sha256()
        with file.open("rb") as reader:
            while chunk := reader.read(_CHUNK):
                state.update(chunk)
                done += len(chunk)
                report(Progress("checking weights", done, total))
        return state.hexdigest()

    if path.is_file():
        return one(path)
    manifest = "".join(f"{one(path / name)}  {name}\n" for name in _files(path))
    return hashlib.sha256(manifest.encode()).hexdigest()


def size(path: Path) -> int:
    """Bytes of a file, or of all files of a directory that count for its digest."""
    return path.stat().st_size if path.is_file() else sum((path / name).stat().st_size for name in _files(path))


class DigestMemory:
    """What digest a path had, as long as nobody touched it: size, modification time and inode decide.

    With it a restart does not read gigabytes again. Notes are small files; one that cannot be written only costs time.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def digest(self, path: Path, report: Report) -> str:
        """The digest of ``path``: remembered, or computed and remembered."""
        stamp = _stamp(path)
        note = self._note(path)
        try:
            remembered = json.loads(note.read_text())
            if remembered["stamp"] == stamp:
                return str(remembered["sha256"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        found = digest(path, report)
        self.remember(path, stamp, found)
        return found

    def remember(self, path: Path, stamp: str, sha256: str) -> None:
        """Note a digest that was computed while ``path`` had this stamp."""
        note = self._note(path)
        with contextlib.suppress(OSError):
            note.parent.mkdir(parents=True, exist_ok=True)
            fresh = note.with_name(f"{note.name}.{os.getpid()}")
            fresh.write_text(json.dumps({"stamp": stamp, "sha256": sha256}))
            fresh.replace(note)

    def remember_now(self, path: Path, sha256: str) -> None:
        """Note the digest of a path that nobody else can be writing to."""
        self.remember(path, _stamp(path), sha256)

    def forget(self, path: Path) -> None:
        """Drop the note of a path, so that it is read the next time."""
        with contextlib.suppress(OSError):
            self._note(path).unlink(missing_ok=True)

    def _note(self, path: Path) -> Path:
        return self._directory / hashlib.sha256(str(path).encode()).hexdigest()


def _stamp(path: Path) -> str:
    state = hashlib.sha256()
    for name in [""] if path.is_file() else _files(path):
        status = (path / name).stat()
        state.update(f"{name}\0{status.st_ino} {status.st_size} {status.st_mtime_ns}\n".encode())
    return state.hexdigest()


def _files(directory: Path) -> list[str]:
    return sorted(_walk(directory, ""))


def _walk(directory: Path, prefix: str) -> Iterator[str]:
    for entry in directory.iterdir():
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name
