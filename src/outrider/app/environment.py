"""``Environment``: the Python an engine runs in.

Without packages it is Outrider's own interpreter. With packages it is a virtual environment of its own,
content-addressed under ``OUTRIDER_CACHE/environments/DIGEST`` and shared by every revision that asks for the same. The
runner builds it, on the node, in the stage ``preparing``.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from outrider.app.server import Progress, Report
from outrider.errors import EnvironmentFailed, InvalidSource

_COMPLETE = "environment.json"


class Environment:
    """Python version, packages, environment variables and patches of an engine.

    Args:
        python: ``"3.11"`` or the path of an interpreter; None: the one Outrider runs in.
        packages: pip requirements, best pinned; empty: nothing is built.
        env: variables the engine's process gets.
        patches: unified diffs (text), applied in order onto the installed packages (``patch -p1`` in site-packages).
    """

    def __init__(
        self,
        python: str | None = None,
        packages: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        patches: Sequence[str] = (),
    ) -> None:
        if patches and not packages:
            raise InvalidSource(
                "Environment(patches=…) without packages would patch Outrider's own installation",
                remedy="Name the packages to patch, so that they get an environment of their own.",
            )
        self.python = python
        self.packages = tuple(packages)
        self.env = dict(env or {})
        self.patches = tuple(patches)

    @property
    def digest(self) -> str:
        """SHA-256 over what decides the installed files; variables do not."""
        content = {"python": self.python or sys.version, "packages": self.packages, "patches": self.patches}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def interpreter(self) -> Path:
        """The interpreter that the engine's command line starts with. It exists after :meth:`prepare`."""
        return self._directory / "bin/python" if self.packages else _base_interpreter(self.python)

    @property
    def _directory(self) -> Path:
        cache = os.environ.get("OUTRIDER_CACHE") or Path.home() / ".cache/outrider"
        return Path(cache).expanduser() / "environments" / self.digest[:32]

    def describe(self) -> dict[str, object]:
        """JSON-serialisable form for ``--describe``."""
        return {"python": self.python, "packages": list(self.packages), "env": self.env, "digest": self.digest}

    def prepare(self, report: Report) -> None:
        """Build the environment unless it is there. Two replicas that ask at once build it once.

        Raises:
            EnvironmentFailed: no such Python, or pip could not install; the half-built directory is removed.
        """
        if not self.packages:
            _base_interpreter(self.python)
            return
        directory = self._directory
        directory.parent.mkdir(parents=True, exist_ok=True)
        with Path(f"{directory}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (directory / _COMPLETE).exists():
                return
            shutil.rmtree(directory, ignore_errors=True)
            try:
                self._build(directory, report)
            except BaseException:
                shutil.rmtree(directory, ignore_errors=True)
                raise

    def _build(self, directory: Path, report: Report) -> None:
        base = _base_interpreter(self.python)
        report(Progress(f"environment: creating from {base.name}"))
        _run([str(base), "-m", "venv", str(directory)], "create a virtual environment")
        python = str(directory / "bin/python")
        report(Progress(f"environment: installing {', '.join(self.packages)}"))
        _run([python, "-m", "pip", "install", "--quiet", *self.packages], "install its packages")
        site = _run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], "find its packages"
        ).strip()
        for number, patch in enumerate(self.patches, 1):
            report(Progress(f"environment: patch {number} of {len(self.patches)}"))
            _run(["patch", "-p1", "--forward", "--batch", "-d", site], f"apply patch {number}", stdin=patch)
        lock = _run([python, "-m", "pip", "freeze"], "list its packages").splitlines()
        digests = [hashlib.sha256(patch.encode()).hexdigest() for patch in self.patches]
        (directory / _COMPLETE).write_text(json.dumps({"lock": lock, "patches": digests}, indent=1))


def _base_interpreter(python: str | None) -> Path:
    if python is None:
        return Path(sys.executable)
    found = shutil.which(python) or shutil.which(f"python{python}")
    if found is None and sys.version.startswith(f"{python}."):
        found = sys.executable
    if found is None:
        raise EnvironmentFailed(
            f"No Python {python!r} on this machine", remedy="Install it, or leave python out to use Outrider's own."
        )
    return Path(found)


def _run(argv: list[str], purpose: str, *, stdin: str | None = None) -> str:
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EnvironmentFailed(f"Could not {purpose}", why=str(error), remedy=f"Install {argv[0]}.") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise EnvironmentFailed(
            f"Could not {purpose} of the environment" if purpose.startswith("create") else f"Could not {purpose}",
            why=next((line for line in reversed(lines) if "ERROR" in line or "error" in line), "".join(lines[-1:])),
            remedy="Correct Environment(packages=…, patches=…) in serve.py.",
        )
    return done.stdout
