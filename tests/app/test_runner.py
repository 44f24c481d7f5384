"""The runner, as the process it is, on servers that behave and on servers that do not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outrider.errors import InvalidSource, ReplicaFailed, StartTimeout

GOOD = """
import subprocess, sys, outrider
app = outrider.App("hello")
@app.server(startup_timeout={timeout})
class Server:
    @outrider.enter()
    def start(self):
        self.process = subprocess.Popen([sys.executable, "-m", "http.server", str(self.port), "--bind", "127.0.0.1"])
"""
SILENT = """
import outrider
app = outrider.App("silent")
@app.server(startup_timeout=1)
class Server:
    @outrider.enter()
    def start(self): pass
"""
HANGING = SILENT.replace("pass", "__import__('time').sleep(600)")
RAISING = SILENT.replace("pass", "raise RuntimeError('no such thing')")

SLOW = """
import time, outrider
class Slow:
    def prepare(self, report):
        report(outrider.app.server.Progress("fetching", 1, 100))
        try:
            time.sleep(600)
        except Exception:
            time.sleep(600)
app = outrider.App("slow")
@app.server()
class Server:
    weights = Slow()
    @outrider.enter()
    def start(self): pass
"""


class Process:
    """A runner under test."""

    def __init__(self, directory: Path, source: str) -> None:
        self.file = directory / "serve.py"
        self.file.write_text(textwrap.dedent(source))
        self.directory = directory / "r"
        argv = [sys.executable, "-m", "outrider.app.runner", str(self.file), "--directory", str(self.directory)]
        self.child = subprocess.Popen(
            argv, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def state(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.directory / "state.json").read_text()))
        except FileNotFoundError:
            return {"stage": "none"}

    def until(self, stage: str) -> dict[str, Any]:
        deadline = time.monotonic() + 30
        while (state := self.state())["stage"] != stage:
            assert time.monotonic() < deadline and self.child.poll() is None, state
            select_for(0.02)
        return state

    def exit(self) -> dict[str, Any]:
        self.child.wait(30)
        return dict(json.loads((self.directory / "exit.json").read_text()))


def select_for(seconds: float) -> None:
    """Let the child run between two looks at its state file."""
    import select

    select.select([], [], [], seconds)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Any]:
    started: list[Process] = []

    def start(source: str) -> Process:
        started.append(Process(tmp_path, source))
        return started[-1]

    yield start
    for process in started:
        if process.child.poll() is None:
            process.child.kill()
        process.child.wait()


def test_a_plain_http_server_becomes_ready_and_stops(run: Any) -> None:
    process = run(GOOD.format(timeout=20))
    assert process.until("ready")["engine_url"].startswith("http://127.0.0.1:")
    process.child.send_signal(signal.SIGTERM)
    assert process.exit()["reason"] == "stopped"
    assert process.child.returncode == 0


@pytest.mark.parametrize("source", [SILENT, HANGING], ids=["never listens", "hangs"])
def test_what_never_listens_is_ended_after_its_timeout(run: Any, source: str) -> None:
    record = run(source).exit()
    assert record["error"]["code"] == StartTimeout.code
    assert "self.port" in record["error"]["remedy"]


def test_a_hook_that_raises_is_one_line(run: Any) -> None:
    record = run(RAISING).exit()
    assert record["error"]["code"] == ReplicaFailed.code
    assert record["error"]["detail"] == "RuntimeError: no such thing"


def test_a_download_is_interrupted(run: Any) -> None:
    process = run(SLOW.replace("import time, outrider", "import time, outrider, outrider.app.server"))
    process.until("preparing")
    process.child.send_signal(signal.SIGTERM)
    assert process.exit()["reason"] == "stopped"


def test_a_dead_server_is_noticed(run: Any) -> None:
    process = run(GOOD.format(timeout=20))
    process.until("ready")
    children = Path(f"/proc/{process.child.pid}/task/{process.child.pid}/children").read_text().split()
    for pid in children:
        subprocess.run(["kill", "-9", pid], check=True)
    record = process.exit()
    assert record["error"]["code"] == ReplicaFailed.code
    assert "SIGKILL" in record["reason"]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("import outrider\nraise ValueError('x')", "line 2: ValueError: x"),
        ("def broken(:", "line 1"),
        ("import outrider", "declares 0 servers"),
        ("import sys\nsys.exit(3)", "line 2: SystemExit: 3"),
        ("import outrider\napp = outrider.App('Bad Name')", "no DNS label"),
        ("import outrider\napp = outrider.App('a')\n@app.server(prot=1)\nclass S: pass", "no argument 'prot'"),
        ("import outrider\napp = outrider.App('a')\n@app.server()\nclass S: pass", "starts nothing"),
    ],
)
def test_describe_says_what_is_wrong_in_one_line(tmp_path: Path, source: str, words: str) -> None:
    file = tmp_path / "serve.py"
    file.write_text(source)
    argv = [sys.executable, "-m", "outrider.app.runner", str(file), "--describe"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    problem = json.loads(done.stdout)
    assert problem["code"] == InvalidSource.code
    assert words in problem["title"]
    assert "Traceback" not in done.stderr
