from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from outrider.engines.process import EngineProcess, engine_variables
from outrider.errors import ReplicaFailed

STUBBORN = """
import pathlib, signal, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path({fifo!r}).write_text("ready")
threading.Event().wait()
"""


def start(code: str, log: Path) -> EngineProcess:
    return EngineProcess([sys.executable, "-c", code], env=os.environ, log=log)


def await_exit(process: EngineProcess) -> None:
    """Return once the child is gone; it is left to be reaped."""
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def test_output_is_appended_and_only_the_own_lines_are_told(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before\n")
    process = start("import os; os.write(1, b'out\\n'); os.write(2, b'err\\n'); os.write(1, b'last\\n')", log)
    await_exit(process)
    assert log.read_text() == "before\nout\nerr\nlast\n"
    assert process.last_lines(10) == ["out", "err", "last"]
    assert process.last_lines(1) == ["last"]
    process.stop(1.0)


def test_a_stubborn_child_is_ended_by_force(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = start(STUBBORN.format(fifo=str(fifo)), tmp_path / "log")
    assert fifo.read_text() == "ready"
    process.stop(0.05)
    assert process.poll() == -signal.SIGKILL
    process.stop(0.05)


def test_it_gets_no_descriptor_of_ours(tmp_path: Path) -> None:
    log = tmp_path / "log"
    held = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(held, True)
    process = start("import os; print(sorted(os.listdir('/proc/self/fd')))", log)
    await_exit(process)
    os.close(held)
    assert log.read_text().strip() == "['0', '1', '2', '3']", "3 is the listing itself"
    process.stop(1.0)


def test_only_the_main_thread_may_start_one(tmp_path: Path) -> None:
    refused: list[BaseException] = []

    def attempt() -> None:
        try:
            start("", tmp_path / "log")
        except RuntimeError as error:
            refused.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert len(refused) == 1


def test_a_command_that_is_none_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ReplicaFailed, match="No such file"):
        EngineProcess([str(tmp_path / "absent")], env={}, log=tmp_path / "log")


def test_later_variables_win_and_secrets_stay() -> None:
    merged = engine_variables({"A": "1", "HF_TOKEN": "x", "OUTRIDER_KEY": "y"}, {"A": "2", "B": "3"})
    assert merged == {"A": "2", "B": "3"}
