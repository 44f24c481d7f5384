"""An engine's own Python: built once with uv, patched, content-addressed."""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from outrider.app import uv
from outrider.app.environment import Environment
from outrider.app.server import Progress, Report
from outrider.errors import EnvironmentFailed, InvalidSource, MachineFault

PATCH = """--- a/six.py
+++ b/six.py
@@ -32,1 +32,1 @@
-__version__ = "1.16.0"
+__version__ = "1.16.0+patched"
"""
SIX = ["six==1.16.0"]


def ignore(_: Progress) -> None:
    """A report that nobody reads."""


@pytest.fixture(scope="session")
def tools(weights_cache: Path) -> Path:
    """uv, fetched once for all tests and runs."""
    uv.find(weights_cache, {"PATH": ""}, ignore)
    return weights_cache / "tools"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, tools: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    (tmp_path / "tools").symlink_to(tools)
    return tmp_path


def version(environment: Environment) -> str:
    """What the installed six says of itself."""
    code = "import six; print(six.__version__)"
    done = subprocess.run([environment.interpreter, "-I", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_packages_and_patches_are_installed_once() -> None:
    environment = Environment(packages=SIX, patches=[PATCH], env={"A": "1"})
    said: list[Progress] = []
    environment.prepare(said.append)
    assert version(environment) == "1.16.0+patched"
    assert environment.lock == ("six==1.16.0",)
    assert any("six==1.16.0" in progress.detail for progress in said)
    said.clear()
    Environment(packages=SIX, patches=[PATCH], env={"A": "2"}).prepare(said.append)
    assert said == []


def test_a_patch_changes_one_environment_and_not_the_wheel_that_others_share(cache: Path) -> None:
    patched, plain = Environment(packages=SIX, patches=[PATCH]), Environment(packages=SIX)
    for environment in (patched, plain):
        environment.prepare(ignore)
    assert version(patched) == "1.16.0+patched"
    assert version(plain) == "1.16.0"
    assert patched.directory != plain.directory
    installed = next(plain.directory.glob("lib/*/site-packages/six.py"))
    assert installed.stat().st_nlink > 1, "files are shared with uv's cache"
    written = json.loads((patched.directory / "environment.json").read_text())
    assert written["patches"] == [{"name": "patch 1", "sha256": patched.patches[0].sha256}]


@pytest.mark.parametrize(
    ("packages", "patches", "said"),
    [
        (["no-such-package-at-all==0"], [], "no-such-package-at-all was not found"),
        (["six==1.16.0", "six==1.15.0"], [], "unsatisfiable"),
        (["six =="], [], "six =="),
        (SIX, [PATCH.replace("1.16.0", "9.9")], "not the ones it was made for"),
        (SIX, ["no diff at all"], "no unified diff"),
    ],
)
def test_what_cannot_be_built_says_why_and_leaves_nothing(
    cache: Path, packages: Sequence[str], patches: Sequence[str], said: str
) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        Environment(packages=packages, patches=patches).prepare(ignore)
    assert said in str(caught.value)
    assert caught.value.remedy
    assert "\n" not in str(caught.value)
    assert [path for path in (cache / "environments").iterdir() if path.is_dir()] == []


def test_what_would_be_installed_is_found_out_without_installing_it(cache: Path) -> None:
    assert Environment(packages=SIX, patches=[PATCH]).resolve(ignore) == ("six==1.16.0",)
    assert Environment().resolve(ignore) == ()
    assert not (cache / "environments").exists()
    with pytest.raises(EnvironmentFailed, match="no-such-package-at-all") as caught:
        Environment(packages=["no-such-package-at-all==0"]).resolve(ignore)
    assert "Could not find packages for" in caught.value.what and caught.value.remedy


def test_what_a_killed_builder_left_is_in_nobodys_way() -> None:
    environment = Environment(packages=SIX)
    for name in (environment.directory.name, f"{environment.directory.name}.building"):
        left = environment.directory.with_name(name)
        (left / "lib").mkdir(parents=True)
        (left / "lib/junk").write_text("half")
    environment.prepare(ignore)
    assert version(environment) == "1.16.0"
    assert not (environment.directory / "lib/junk").exists()


def test_an_environment_whose_python_is_gone_is_built_anew() -> None:
    environment = Environment(packages=SIX)
    environment.prepare(ignore)
    (environment.directory / "bin/python").unlink()
    (environment.directory / "bin/python").symlink_to("/nowhere/python")
    environment.prepare(ignore)
    assert version(environment) == "1.16.0"


def test_a_killed_builders_uv_is_waited_for(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its uv lives on, and would write into what the next builder makes."""
    (tmp_path / "bin").mkdir()
    os.mkfifo(tmp_path / "end")
    slow = tmp_path / "bin/uv"
    slow.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo uv 99.0 && exit\n'
        f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; read -r line < {tmp_path}/end\n"
    )
    slow.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{slow.parent}:/usr/bin:/bin")
        context = multiprocessing.get_context("spawn")
        builder = context.Process(target=Environment(packages=SIX).prepare, args=(ignore,))
        builder.start()
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists():
        assert builder.is_alive() and time.monotonic() < deadline
        builder.join(0.02)
    builder.kill()
    builder.join(60)
    environment, said = Environment(packages=SIX), list[Progress]()

    def end_it(progress: Progress) -> None:
        said.append(progress)
        if "another replica" in progress.detail:
            (tmp_path / "end").write_text("now\n")

    environment.prepare(end_it)
    assert "another replica is building it" in said[0].detail
    assert version(environment) == "1.16.0"


def _build(said: Any) -> None:
    Environment(packages=SIX).prepare(lambda progress: said.put(progress.detail))


def test_two_builders_build_once() -> None:
    context = multiprocessing.get_context("spawn")
    said = context.Queue()
    builders = [context.Process(target=_build, args=(said,)) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(100)
        assert builder.exitcode == 0
    details = []
    while not said.empty():
        details.append(said.get())
    assert len([detail for detail in details if "installing" in detail]) == 1


def test_it_shares_nothing_with_outriders_own_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign/six.py").write_text("__version__ = 'foreign'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "foreign"))
    environment = Environment(packages=SIX)
    environment.prepare(ignore)
    code = "import sys, importlib.util as u; print(sys.prefix, u.find_spec('pydantic'), u.find_spec('pip'))"
    done = subprocess.run([environment.interpreter, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(environment.directory), "None", "None"]


def test_pips_configuration_says_where_wheels_come_from(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = tmp_path / "wheels"
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), "six==1.16.0"]
    subprocess.run(argv, check=True, capture_output=True)
    settings = tmp_path / "pip.conf"
    settings.write_text(f"[global]\nno-index = true\nfind-links = {wheels}\n")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    environment = Environment(packages=["six"])
    environment.prepare(ignore)
    assert environment.lock == ("six==1.16.0",), "the newest that this directory has"
    with pytest.raises(EnvironmentFailed, match="idna"):
        Environment(packages=["idna"]).prepare(ignore)


def test_constraints_bound_versions_and_are_part_of_the_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = Environment(packages=["six"]).digest
    bounds = tmp_path / "constraints.txt"
    bounds.write_text("# why\nsix<1.17  # and here\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(bounds))
    bound = Environment(packages=["six"])
    assert bound.digest != free
    bound.prepare(ignore)
    assert bound.lock == ("six==1.16.0",)


def test_the_digest_is_of_what_is_installed() -> None:
    one = Environment(packages=["b", "a ==  1"], env={"X": "1"})
    assert one.digest == Environment(packages=["a == 1", "b"]).digest
    assert one.digest != Environment(packages=["a == 1", "b"], patches=[PATCH]).digest
    assert one.digest != Environment(packages=["a == 2", "b"]).digest


def test_outriders_own_python_is_not_patched() -> None:
    with pytest.raises(InvalidSource):
        Environment(patches=[PATCH])


@pytest.mark.parametrize(
    "wrong",
    [{"packages": "six==1.16.0"}, {"packages": SIX, "patches": PATCH}, {"packages": [1]}, {"python": 3.11}],
)
def test_what_is_no_list_of_texts_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSource, match=r"is a (list of texts|text)"):
        Environment(**wrong)


@pytest.mark.parametrize("use", [Environment.prepare, Environment.resolve])
def test_a_cache_that_cannot_be_written_is_said(
    use: Callable[[Environment, Report], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "file/cache"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MachineFault, match="Cannot write under") as caught:
        use(Environment(packages=SIX), ignore)
    assert "OUTRIDER_CACHE" in str(caught.value.remedy)


def test_without_packages_it_is_outriders_own_python() -> None:
    own = Environment()
    own.prepare(ignore)
    assert own.interpreter == Path(sys.executable)
    assert own.lock == ()


def test_an_unknown_python_is_said() -> None:
    with pytest.raises(EnvironmentFailed, match=r"9\.9"):
        Environment(python="9.9", packages=["six"]).prepare(ignore)


def test_something_else_than_a_python_is_said() -> None:
    with pytest.raises(EnvironmentFailed, match="no Python"):
        Environment(python="/bin/false", packages=["six"]).prepare(ignore)
