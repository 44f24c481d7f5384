"""An engine's own Python: built once, patched, content-addressed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from outrider.app.environment import Environment
from outrider.app.server import Progress
from outrider.errors import EnvironmentFailed, InvalidSource

PATCH = """--- a/six.py
+++ b/six.py
@@ -31,1 +31,1 @@
-__version__ = "1.16.0"
+__version__ = "1.16.0+patched"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path))
    return tmp_path


def test_packages_and_patches_are_installed_once() -> None:
    environment = Environment(packages=["six==1.16.0"], patches=[PATCH], env={"A": "1"})
    said: list[Progress] = []
    environment.prepare(said.append)
    code = "import six; print(six.__version__)"
    done = subprocess.run([environment.interpreter, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1.16.0+patched"
    assert any("six==1.16.0" in progress.detail for progress in said)
    said.clear()
    Environment(packages=["six==1.16.0"], patches=[PATCH], env={"A": "2"}).prepare(said.append)
    assert said == []


@pytest.mark.parametrize(
    ("packages", "patches"),
    [(["no-such-package-at-all==0"], []), (["six==1.16.0"], [PATCH.replace("1.16.0", "9.9")])],
    ids=["unknown package", "patch that does not apply"],
)
def test_what_cannot_be_built_leaves_nothing(cache: Path, packages: list[str], patches: list[str]) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        Environment(packages=packages, patches=patches).prepare(lambda _: None)
    assert caught.value.why and caught.value.remedy
    assert [path for path in (cache / "environments").iterdir() if path.is_dir()] == []


def test_outriders_own_python_is_not_patched() -> None:
    with pytest.raises(InvalidSource):
        Environment(patches=[PATCH])


def test_an_unknown_python_is_said() -> None:
    with pytest.raises(EnvironmentFailed, match=r"9\.9"):
        Environment(python="9.9", packages=["six"]).prepare(lambda _: None)
