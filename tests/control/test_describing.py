"""A serve.py is read in a child that cannot hurt: it may raise, hang, exit or leave processes behind."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from outrider.control.describing import describe_source, digest
from outrider.errors import InvalidSource

GOOD = """
import outrider
app = outrider.App("hello")
@app.server(max_concurrency=3)
class Server:
    @outrider.enter()
    def start(self): pass
"""


def test_a_declaration_is_read() -> None:
    found = describe_source(GOOD)
    assert (found["app"], found["server"]["max_concurrency"], found["engine"]) == ("hello", 3, None)


def test_what_hangs_is_ended_with_all_it_started() -> None:
    mark = f"hang-{uuid.uuid4()}"
    child = f"['python3', '-c', 'import time; time.sleep(600)', '{mark}']"
    source = f"import subprocess, time\nsubprocess.Popen({child})\ntime.sleep(600)\n"
    with pytest.raises(InvalidSource, match="not read within 2 s"):
        describe_source(source, timeout=2)
    running = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and _mentions(entry, mark)]
    assert running == []


def _mentions(entry: Path, mark: str) -> bool:
    try:
        return mark.encode() in (entry / "cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize(
    ("source", "words"),
    [("import os\nos._exit(0)", "ended before"), ("raise KeyError('k')", "KeyError"), ("x = (", "line 1")],
)
def test_what_is_wrong_is_one_line(source: str, words: str) -> None:
    with pytest.raises(InvalidSource, match=words) as caught:
        describe_source(source)
    assert caught.value.remedy


def test_it_sees_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert os.environ["HF_TOKEN"] == "secret"
    with pytest.raises(InvalidSource, match="KeyError: 'HF_TOKEN'"):
        describe_source("import os\nos.environ['HF_TOKEN']")


def test_the_digest_follows_what_runs() -> None:
    declaration = describe_source(GOOD)
    first = digest(GOOD, None, declaration)
    assert first == digest(GOOD, None, declaration)
    assert len({first, digest(GOOD + "\n", None, declaration), digest(GOOD, {"a": 1}, declaration)}) == 3
