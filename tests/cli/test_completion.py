"""Completion as a shell does it: bash runs the printed function and shows what it would offer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outrider.cli import candidates, completion
from outrider.recipes.library import shipped
from outrider.spec.home import Home
from tests.cli.api import READY, Api
from tests.cli.conftest import Run
from tests.client.standin import Standin
from tests.models.test_cache import ignore

_BASH = """
eval "$(outrider completion bash)"
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
"$(complete -p outrider | sed 's/.*-F \\([^ ]*\\).*/\\1/')" outrider
printf '%s\\n' "${COMPREPLY[@]}"
"""
_RECIPES = sorted(recipe.id for recipe in shipped())
_MODELS = sorted({recipe.model.id for recipe in shipped()})
_SMOL = [name for name in _RECIPES if name.startswith("smollm2-135m-instruct/")]


def bash(*words: str) -> list[str]:
    """What bash would offer for the last of the words after ``outrider``."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = ["bash", "--norc", "-c", _BASH, "bash", "outrider", *words]
    done = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.fixture(autouse=True)
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the recipes that ship."""
    monkeypatch.delenv("OUTRIDER_RECIPES", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["end"], ["endpoint"]),
        (["model", ""], ["list", "pull", "rm", "verify"]),
        (["--ver"], ["--version"]),
        (["endpoint", "logs", "--fol"], ["--follow"]),
        (["endpoint", "info", ""], ["small", "smaller"]),
        (["endpoint", "logs", "-f", "smalle"], ["smaller"]),
        (["endpoint", "rm", "x"], []),
        (["key", "revoke", ""], ["ci"]),
        (["key", "create", "new", "--endpoint", "smalle"], ["smaller"]),
        (["recipe", "show", "smol"], _SMOL),
        (["endpoint", "create", "--recipe", ""], _RECIPES),
        (["endpoint", "plan", "--model", "Hugging"], ["HuggingFaceTB/SmolLM2-135M-Instruct"]),
        (["model", "pull", ""], [*_MODELS, *_RECIPES]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["deploy", "serv"], []),  # bash offers files where nothing is offered
        (["no-such-command", ""], []),
    ],
)
def test_bash_offers_what_there_is(
    home: Home, api: Api, controller: Standin, words: list[str], offered: list[str]
) -> None:
    views = [READY | {"name": name} for name in ("small", "smaller")]
    api.answers["GET /endpoints"] = lambda asked: {"items": views}
    api.keys = [{"name": "ci", "revoked_at": None}, {"name": "old", "revoked_at": 5}]
    assert [name for name in bash(*words) if name != "[]"] == offered


def test_the_whole_list_of_commands_is_offered(outrider: Run) -> None:
    assert "completion" in bash("")
    assert len(bash("")) > 8


def test_a_controller_that_is_not_there_or_broken_is_silent(home: Home, api: Api) -> None:
    assert bash("endpoint", "info", "") == []
    assert bash("key", "revoke", "") == []


def test_a_controller_that_hangs_is_not_waited_for(
    home: Home, api: Api, controller: Standin, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    done = threading.Event()
    api.answers["GET /endpoints"] = lambda asked: {"items": []} if done.wait(30) else None
    monkeypatch.setattr(candidates, "_PATIENCE", 0.1)
    begun = time.monotonic()
    try:
        assert candidates.endpoint_names("") == []
        assert time.monotonic() - begun < 20
    finally:
        done.set()


def test_a_catalog_that_is_broken_offers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.yaml").write_text("id: [")
    monkeypatch.setenv("OUTRIDER_RECIPES", str(tmp_path))
    assert candidates.recipe_ids("") == []


def test_what_is_cached_is_offered_by_its_digest(home: Home) -> None:
    from outrider.models.cache import Cache

    cache = Cache.from_environment()
    fetched = cache.workspace("hf:a/b") / "x.gguf"
    fetched.write_bytes(b"x")
    place = cache.admit(fetched, "hf:a/b", None, ignore)
    assert candidates.cached("") == [place.parent.name[:12]]
    assert candidates.cached("zz") == []


@pytest.mark.parametrize("shell", list(completion.Shell))
def test_each_script_asks_outrider(outrider: Run, shell: str) -> None:
    done = outrider("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert f"{completion.VARIABLE}=complete_{shell}" in done.out
    assert outrider("completion", "tcsh").code == 2


def test_fish_is_told_whether_there_is_anything(home: Home) -> None:
    def ask(line: str, action: str) -> subprocess.CompletedProcess[str]:
        question = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": action}
        env = {**os.environ, **question, completion.VARIABLE: "complete_fish"}
        command = [sys.executable, "-m", "outrider.cli.main"]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

    assert ask("outrider recipe show sm", "get-args").stdout.split() == _SMOL
    assert ask("outrider recipe show sm", "is-args").returncode == 0
    assert ask("outrider deploy sm", "is-args").returncode == 1


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_shell_itself_accepts_its_script(outrider: Run, tmp_path: Path, shell: str) -> None:
    found = shutil.which(shell)
    if found is None:
        assert "CI" not in os.environ, f"{shell} is missing: .ci/run installs it"
        pytest.skip(f"{shell} is not installed here: apt-get install {shell}")
    script = tmp_path / "script"
    script.write_text(outrider("completion", shell).out)
    assert subprocess.run([found, "-n", str(script)], timeout=60).returncode == 0
