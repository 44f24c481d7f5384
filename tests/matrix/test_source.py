"""Bad ``serve.py`` files: what cannot be read changes nothing, what cannot be run is removed again."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from outrider.control.describing import describe_source
from outrider.errors import InvalidSource
from tests.matrix.house import House, command
from tests.matrix.refusal import Refusal, check_refusal

_APP = """
import outrider, os, sys
from outrider import Environment, LlamaCpp, Weights
X = Weights("path:/x")
app = outrider.App("fresh")
"""
_HOOK = "    @outrider.enter()\n    def start(self): pass\n"
_SERVER = f"@app.server()\nclass Server:\n{_HOOK}"


class Case(NamedTuple):
    """A file's text, the code it is refused with, and a word of the refusal."""

    source: str
    says: str
    code: str = "invalid_source"


def _argument(text: str, says: str) -> Case:
    return Case(f"{_APP}@app.server({text})\nclass Server:\n{_HOOK}", says)


def _engine(text: str, says: str, code: str = "invalid_source") -> Case:
    return Case(f"{_APP}@app.server()\nclass Server:\n    engine = {text}\n", says, code)


UNREADABLE = {
    "no Python": Case("x = (", "line 1"),
    "a tab among spaces": Case("if 1:\n        x = 1\n\ty = 2\n", "line 3"),
    "a zero byte": Case("x = '\0'", "null bytes"),
    "raises": Case("import os\nraise KeyError('k')", "line 2: KeyError"),
    "raises lines": Case("raise ValueError('one\\ntwo\\r\\nthree')", "one two three"),
    "imports what is not there": Case("import nothing_of_that_name", "nothing_of_that_name"),
    "leaves": Case("import sys\nsys.exit(3)", "line 2"),
    "leaves at once": Case("import os\nos._exit(0)", "ended before"),
    "kills itself": Case("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "ended before"),
    "prints and leaves": Case("import os\nprint('garbage {', flush=True)\nos._exit(0)", "garbage"),
    "prints another answer": Case("import os\nprint('[1]', flush=True)\nos._exit(0)", "ended before"),
    "prints no UTF-8": Case("import os\nos.write(1, b'\\xff\\xfe\\n')\nos._exit(1)", "ended before"),
    "prints without end": Case("import os\nos.write(1, b'x' * 3_000_000)\nos._exit(1)", "ended before"),
    "recurses without end": Case("def f(): f()\nf()", "RecursionError"),
    "no app": Case("x = 1", "declares 0 servers"),
    "an app without a server": Case(_APP, "declares 0 servers"),
    "two apps": Case(f"{_APP}{_SERVER}other = outrider.App('other')\n@other.server()\nclass O:\n{_HOOK}", "2 servers"),
    "two servers": Case(f"{_APP}{_SERVER}@app.server()\nclass Other:\n{_HOOK}", "Server was first"),
    "a server that starts nothing": Case(f"{_APP}@app.server()\nclass Server: pass\n", "starts nothing"),
    "a bad name": Case("import outrider\noutrider.App('Bad Name')", "DNS label"),
    "a name of a number": Case("import outrider\noutrider.App(5)", "line 2"),
    "an unknown argument": _argument("max_concurency=3", "no argument 'max_concurency'"),
    "a port too large": _argument("port=70000", "port must be"),
    "a port of letters": _argument("port='x'", "port"),
    "negative replicas": _argument("min_replicas=-1", "min_replicas must be 0 or more"),
    "more at least than at most": _argument("min_replicas=3, max_replicas=2", "max_replicas"),
    "no time to start": _argument("startup_timeout=0", "startup_timeout"),
    "a relative path of health": _argument("health_path='health'", "start with '/'"),
    "weights of no form": _engine("LlamaCpp(Weights('ftp:x'))", "names no weights"),
    "own weights without a base": _engine("LlamaCpp(outrider.OwnWeights('path:/x'))", "base"),
    "own weights with a misspelt fact": _engine(
        "LlamaCpp(outrider.OwnWeights('path:/x', base=outrider.ModelFacts(format='gguf', architecture='llama',"
        " source='x', layer=30)))",
        "ModelFacts: layer: Extra inputs are not permitted",
    ),
    "weights from nowhere": _engine("LlamaCpp(Weights())", "no source"),
    "a digest that is none": _engine("LlamaCpp(Weights('path:/x', sha256='12'))", "64"),
    "an unknown engine argument": _engine("LlamaCpp(X, slot=3)", "slot"),
    "an impossible engine argument": _engine("LlamaCpp(X, slots=0)", "slots"),
    "an unknown engine flag": _engine("LlamaCpp(X, extra={'nope': 1})", "nope"),
    "patches of Outrider itself": _engine("LlamaCpp(X, Environment(patches=['x']))", "packages"),
}

UNRUNNABLE = {
    "start raises": Case(_SERVER.replace("pass", "raise OSError('no such thing')"), "no such thing", "replica_failed"),
    "start leaves": Case(_SERVER.replace("pass", "sys.exit(4)"), "4", "replica_failed"),
    "dies at start": Case(_SERVER.replace("pass", "os.kill(os.getpid(), 9)"), "was killed", "replica_failed"),
    "never listens": Case(_SERVER.replace("app.server()", "app.server(startup_timeout=0.3)"), "port", "start_timeout"),
}

CASES = {**UNREADABLE, **UNRUNNABLE}


@pytest.mark.parametrize("case", UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_cannot_be_read(case: Case, house: House, tmp_path: Path) -> None:
    file = tmp_path / "serve.py"
    file.write_text(case.source)
    done = command("deploy", str(file), "--json")
    check_refusal(Refusal.of_json(done.out, done.code), case.code, case.says)


@pytest.mark.parametrize("case", UNRUNNABLE.values(), ids=UNRUNNABLE)
def test_a_file_that_cannot_be_run(case: Case, house: House, tmp_path: Path) -> None:
    source = house.fill(case.source)
    file = tmp_path / "serve.py"
    file.write_text(source if "outrider.App" in source else _APP + source)
    done = command("deploy", str(file), "--json")
    check_refusal(Refusal.of_json(done.out, done.code), case.code, case.says)


def test_a_file_whose_import_hangs(house: House) -> None:
    mark = "import subprocess, time\nsubprocess.Popen(['sleep', '600'])\ntime.sleep(600)"
    with pytest.raises(InvalidSource) as caught:
        describe_source(mark, timeout=1)
    check_refusal(Refusal.of_error(caught.value), "invalid_source", "was not read within 1 s")
