"""Several worker processes on one port: the kernel spreads connections over them (SO_REUSEPORT)."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from outrider.gateway.counts import Column, Counts
from outrider.gateway.siblings import Siblings

_log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PAUSE = 0.5
"""Seconds before a worker that died is replaced: one that dies at once does not take a core."""


class Worker(NamedTuple):
    """What a worker process gets.

    Attributes:
        loads: requests in flight over all workers.
        siblings: the other workers.
        ready: descriptor that it writes a byte to once it listens.
        lifeline: descriptor that reads an end of file once the parent is gone.
    """

    loads: Column
    siblings: Siblings
    ready: int
    lifeline: int


class Workers:
    """Starts workers, replaces those that die, and ends with them.

    Args:
        count: how many.
        work: what a worker does; returns its exit code.
        on_ready: called once all of them listen.
    """

    def __init__(self, count: int, work: Callable[[Worker], int], on_ready: Callable[[], None]) -> None:
        self._count = count
        self._work = work
        self._on_ready = on_ready
        self._counts = Counts(count)
        self._lifeline = os.pipe()
        self._running: dict[int, int] = {}
        self._stopping = False

    def run(self) -> int:
        """Until told to stop by SIGTERM or SIGINT, or until a worker cannot work; returns the exit code."""
        for number in _SIGNALS:
            signal.signal(number, lambda *_: self._stop())
        signal.signal(signal.SIGHUP, lambda *_: self._tell(signal.SIGHUP))
        listening = [self._start(index) for index in range(self._count)]
        if all(listening):
            self._on_ready()
        code = 0
        while self._running:
            pid, status = os.wait()
            index = self._running.pop(pid)
            exited = os.waitstatus_to_exitcode(status)
            if exited > 0:  # it has said why on standard error, and a new one would say the same
                code = code or exited
                self._stop()
            elif not self._stopping:
                self._counts.clear(index)
                time.sleep(_PAUSE)
                self._start(index)
        return code

    def _start(self, index: int) -> bool:
        """Start a worker and wait until it listens; False where it never does."""
        ready, said = os.pipe()
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # a signal in between would be handled as the parent's
        pid = os.fork() if not self._stopping else -1
        if pid == 0:
            os.close(ready)
            siblings = Siblings(os.getppid(), index, self._count)
            self._be_worker(Worker(Column(self._counts, index), siblings, said, self._lifeline[0]))
        if pid > 0:
            self._running[pid] = index
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(said)
        try:
            return os.read(ready, 1) != b""
        finally:
            os.close(ready)

    def _be_worker(self, worker: Worker) -> NoReturn:
        code = 1
        try:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the worker knows what to do about it
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            os.close(self._lifeline[1])
            code = self._work(worker)
        except Exception:
            _log.exception("a worker failed")
        finally:
            os._exit(code)  # never back into what the parent was doing

    def _stop(self) -> None:
        self._stopping = True
        self._tell(signal.SIGTERM)

    def _tell(self, number: signal.Signals) -> None:
        for pid in self._running:
            os.kill(pid, number)
