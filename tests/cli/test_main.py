"""Help, errors and exit codes, in this process and in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest
import typer

from outrider.cli import main as cli
from outrider.cli.failures import crashed
from outrider.errors import ReplicaFailed, WeightsCorrupt
from outrider.spec.home import Home
from tests.cli.api import Api
from tests.cli.conftest import Run
from tests.client.standin import Answer, Standin

_HEAVY = ("fastapi", "sqlalchemy", "pydantic", "httpx", "rich", "yaml", "uvicorn", "psutil", "asyncio")
_MODULES = 300


def test_help_is_light() -> None:
    code = (
        "import sys; sys.argv = ['outrider', '--help']\n"
        "from outrider.cli.main import main\n"
        "try: main()\n"
        "finally: print('\\n'.join(sys.modules), file=sys.stderr)"
    )
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, modules = time.perf_counter() - begun, done.stderr.split()
    print(f"outrider --help: {len(modules)} modules, {seconds * 1000:.0f} ms")
    assert not [name for name in _HEAVY if name in modules]
    assert len(modules) < _MODULES
    for name, (_, _, text) in cli._COMMANDS.items():
        assert name in done.stdout
        assert text in done.stdout


@pytest.mark.parametrize("name", cli._COMMANDS)
def test_the_help_of_a_command_is_the_line_that_lists_it(name: str) -> None:
    module, attribute, text = cli._COMMANDS[name]
    found = getattr(import_module(module), attribute)
    help_text = str(found.info.help) if isinstance(found, typer.Typer) else str(found.__doc__)
    assert help_text.startswith(text.rstrip("."))


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in cli._COMMANDS)])
def test_every_help_is_plain_text(outrider: Run, words: list[str]) -> None:
    done = outrider(*words)
    assert (done.code, done.err) == (0, "")
    assert "Usage: outrider" in done.out
    assert "\x1b" not in done.out


def test_usage_errors_exit_2_with_the_way_out(outrider: Run) -> None:
    done = outrider("endpoint", "list", "--nope")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: No such option: --nope\n  next: See: outrider endpoint list --help\n"
    assert "outrider endpoint" in outrider("endpiont").err
    assert outrider("--nope").code == 2
    assert outrider().code == 2


def test_an_error_is_three_lines_and_its_exit_code(outrider: Run) -> None:
    done = outrider("endpoint", "list")
    assert (done.code, done.out) == (6, "")
    what, why, remedy = done.err.splitlines()
    assert (what, remedy) == ("error: No controller answers", "  next: Start it with: outrider up")
    assert why.startswith("  why:  ")


def test_with_json_the_error_is_an_object_on_stdout_and_nothing_else(outrider: Run) -> None:
    done = outrider("endpoint", "list", "--json")
    assert (done.code, done.err) == (6, "")
    assert json.loads(done.out)["code"] == "controller_unreachable"
    assert json.loads(outrider("endpoint", "list", "--json", "--nope").out)["code"] == "usage"


def test_hostile_text_from_the_controller_moves_no_cursor(outrider: Run, api: Api, controller: Standin) -> None:
    api.fails["GET /endpoints"] = WeightsCorrupt("a\x1b[2Jb\nerror: forged", why="\x1b]0;x\x07w", remedy="[/red]")
    done = outrider("endpoint", "list")
    assert done.code == 8
    assert done.err == "error: ab error: forged\n  why:  w\n  next: [/red]\n"


def test_only_the_last_lines_of_a_log_are_shown(outrider: Run, api: Api, controller: Standin) -> None:
    log = [f"line {number}" for number in range(50)]
    api.fails["GET /endpoints"] = ReplicaFailed("It died", details={"log": log})
    done = outrider("endpoint", "list")
    assert done.code == 9
    assert [line.strip() for line in done.err.splitlines()[-10:]] == log[-10:]


def test_an_unforeseen_error_is_one_message_and_a_private_file(
    outrider: Run, home: Home, api: Api, controller: Standin
) -> None:
    api.answers["GET /endpoints"] = lambda asked: Answer(body=b'{"items": [{"name": 3}]}')
    done = outrider("endpoint", "list")
    assert done.code == 1
    assert "Traceback" not in done.out + done.err
    (crash,) = home.run.glob("crash-*.txt")
    assert str(crash) in done.err
    assert "KeyError" in crash.read_text()
    assert crash.stat().st_mode & 0o777 == 0o600


def test_a_reader_that_left_is_no_error(home: Home) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "outrider.cli.main", "--help"]
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_version_is_the_packages(outrider: Run) -> None:
    assert outrider("version").out == outrider("--version").out
    assert json.loads(outrider("version", "--json").out)["version"] in outrider("version").out


def test_without_a_home_the_traceback_is_written_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "file" / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    error = crashed(ValueError("unforeseen"), now=datetime(2026, 1, 2, tzinfo=UTC))
    (path,) = tmp_path.glob("outrider-*/crash-20260102T000000Z-*.txt")
    assert error.details == {"traceback": str(path)}
    assert "ValueError: unforeseen" in path.read_text()
