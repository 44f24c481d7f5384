"""Requests in flight per replica, over all workers of one gateway (decision 10): one shared table, a column a worker.

A worker writes its own column only, one aligned 64-bit number at a time, so nothing is locked where a request is
counted. Two workers may see the same free place at the same moment: a replica's bound is exact with one worker and may
be passed by fewer than N with N.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
from collections.abc import Iterator, Mapping

ROWS = 16_384
"""Replicas that can be told apart in the life of a gateway; what comes after is counted by each worker alone."""

_WIDTH = 8


class Counts:
    """The table, made before the workers are.

    Args:
        workers: how many there will be.
        rows: replicas that can be told apart (:data:`ROWS`).
    """

    def __init__(self, workers: int, *, rows: int = ROWS) -> None:
        self.rows = rows
        self.stride = workers + 1  # the first number of a row says whose it is
        self._file = os.memfd_create("outrider-counts")
        os.ftruncate(self._file, rows * self.stride * _WIDTH)
        self.numbers = memoryview(mmap.mmap(self._file, 0)).cast("q")

    def claim(self, name: int) -> int | None:
        """Where a replica's row starts; None where all rows are taken. A row once taken is never another's."""
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            for step in range(self.rows):
                start = (name + step) % self.rows * self.stride
                if self.numbers[start] in (0, name):
                    self.numbers[start] = name
                    return start
            return None
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def clear(self, worker: int) -> None:
        """A worker has died: nothing of what it counted is in flight any more."""
        for start in range(worker + 1, len(self.numbers), self.stride):
            if self.numbers[start]:
                self.numbers[start] = 0


class Column(Mapping[str, int]):
    """One worker's view: replica id → requests in flight over all workers.

    Args:
        counts: the table.
        worker: whose view, from 0.
    """

    def __init__(self, counts: Counts, worker: int) -> None:
        self._counts = counts
        self._place = worker + 1
        self._starts: dict[str, int | None] = {}
        self._alone: dict[str, int] = {}

    def add(self, replica: str, amount: int) -> None:
        """This worker has sent a request to a replica, or one has ended."""
        start = self._start(replica)
        if start is None:
            self._alone[replica] = self._alone.get(replica, 0) + amount
        else:
            self._counts.numbers[start + self._place] += amount

    def __getitem__(self, replica: str) -> int:
        start = self._start(replica)
        if start is None:
            return self._alone.get(replica, 0)
        return sum(self._counts.numbers[start + 1 : start + self._counts.stride])

    def __iter__(self) -> Iterator[str]:
        return iter(self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def _start(self, replica: str) -> int | None:
        if replica not in self._starts:
            digest = hashlib.blake2b(replica.encode(), digest_size=_WIDTH).digest()
            name = int.from_bytes(digest, "little") >> 1 | 1  # positive and never 0, which says that a row is free
            self._starts[replica] = self._counts.claim(name)
        return self._starts[replica]
