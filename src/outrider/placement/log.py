"""A replica's log read as it grows: only what is new is read, whatever happens to the file meanwhile."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

_TAIL = 262_144
"""Bytes from the end within which the first lines are looked for."""
_MOST = 262_144
"""Bytes read at once; a line without an end is cut there."""


class GrowingLog:
    """Follows one file by its open descriptor: it can be read to its end even when it was renamed or removed.

    Args:
        path: of the log; it may not be there yet.
        lines: how many of the last lines to begin with.
    """

    def __init__(self, path: Path, lines: int) -> None:
        self._path = path
        self._rest = b""
        self._file = _open(path)
        if self._file is not None:
            self._file.seek(_start(self._file, lines))

    def read(self) -> list[str]:
        """The whole lines that came since the last call, at most 256 KiB of them. Goes on with the new file after a
        rotation, and from the beginning after a truncation."""
        if self._file is None:
            self._file = _open(self._path)
        if self._file is None:
            return []
        if os.fstat(self._file.fileno()).st_size < self._file.tell():
            self._file.seek(0)
            self._rest = b""
        new = self._file.read(_MOST)
        if not new and self._replaced():
            last = self.rest()
            self._file.close()
            self._file = _open(self._path)
            return last
        *whole, self._rest = (self._rest + new).split(b"\n")
        if len(self._rest) > _MOST:
            whole, self._rest = [*whole, self._rest], b""
        return [_text(line) for line in whole]

    def rest(self) -> list[str]:
        """Everything up to the end of the file as it is now, the last line even if nothing ends it."""
        found = []
        while self._file is not None and (new := self._file.read(_MOST)):
            *whole, self._rest = (self._rest + new).split(b"\n")
            found += [_text(line) for line in whole]
        last, self._rest = self._rest, b""
        return [*found, _text(last)] if last else found

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _replaced(self) -> bool:
        assert self._file is not None
        try:
            there = self._path.stat()
        except OSError:
            return False  # removed, or not yet made anew
        return not os.path.samestat(there, os.fstat(self._file.fileno()))


def _open(path: Path) -> FileIO | None:
    try:
        return FileIO(path)
    except OSError:
        return None


def _start(file: FileIO, lines: int) -> int:
    end = file.seek(0, os.SEEK_END)
    begin = max(0, end - _TAIL)
    file.seek(begin)
    text = file.read(end - begin)
    position = len(text)
    if text.endswith(b"\n"):
        position -= 1  # the end of the last line begins no further one
    for _ in range(lines):
        position = text.rfind(b"\n", 0, position)
        if position < 0:
            return begin
    return begin + position + 1


def _text(line: bytes) -> str:
    return line.removesuffix(b"\r").decode("utf-8", "replace")
