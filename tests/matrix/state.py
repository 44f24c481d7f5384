"""What an Outrider has: rows, files, processes, listening ports. Two looks are equal where nothing was changed."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import psutil

_STORE = "store.db"
_TABLE = "table.json"
"""It counts its versions, also those that came and went; what it says is made from the rows."""
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'key_usage'"
"""All but what keys have used: refused requests count there too, some time later."""
_NOTES = ("locks", "checked")
"""Of the cache: locks, and digests of files that were left as they are, so that they need not be read again."""
_PASSING = (".log", ".db-wal", ".db-shm", ".lock", ".opening")
"""Logs grow, SQLite's own files come and go, and lock files stay: unlinking one would let two hold it."""


@dataclass(frozen=True)
class State:
    """One look. ``files`` have their size, ``processes`` when they started."""

    rows: dict[str, list[tuple[object, ...]]]
    files: dict[str, int]
    processes: dict[int, str]
    ports: list[tuple[int, int]]

    @classmethod
    def of(cls, root: Path, marks: dict[str, str]) -> State:
        """Of the tree under ``root``, and of the processes whose environment holds a mark."""
        stores = sorted(path for path in root.rglob(_STORE) if path.parent.name != "spoilt")
        found = _processes(marks)
        ports = sorted((process.pid, port) for process in found for port in _listening(process))
        return cls(
            rows={f"{path.parent.name}.{table}": rows for path in stores for table, rows in _rows(path).items()},
            files=_files(root),
            processes={p.pid: _name(p) for p in found},
            ports=ports,
        )


def _rows(store: Path) -> dict[str, list[tuple[object, ...]]]:
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        tables = [name for (name,) in connection.execute(_TABLES)]
        return {table: connection.execute(f'SELECT * FROM "{table}"').fetchall() for table in tables}


def _files(root: Path) -> dict[str, int]:
    found = {}
    for directory, _, names in os.walk(root):
        for name in names:
            path = Path(directory, name)
            if not name.endswith(_PASSING) and name != _STORE and path.parent.name not in _NOTES:
                with contextlib.suppress(OSError):
                    size = 0 if name == _TABLE else path.lstat().st_size
                    found[str(path.relative_to(root))] = size
    return found


def _processes(marks: dict[str, str]) -> list[psutil.Process]:
    """Those that carry a mark; not every child of this process, since another test's may just be ending."""
    return [p for p in psutil.process_iter() if p.pid != os.getpid() and _is_marked(p, marks) and _name(p)]


def _is_marked(process: psutil.Process, marks: dict[str, str]) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        environment = process.environ()
        return any(environment.get(name) == value for name, value in marks.items())
    return False


def _name(process: psutil.Process) -> str:
    """When it started and what it runs; empty for one that is gone (a zombie only waits to be reaped)."""
    with contextlib.suppress(psutil.Error, OSError):
        if process.status() != psutil.STATUS_ZOMBIE:
            return f"{process.create_time():.2f} {' '.join(process.cmdline())[:200]}"
    return ""


def _listening(process: psutil.Process) -> list[int]:
    with contextlib.suppress(psutil.Error, OSError):
        return [c.laddr.port for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    return []
