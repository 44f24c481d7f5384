"""``Environment``: the Python an engine runs in.

Without packages it is Outrider's own interpreter. With packages it is a virtual environment of its own, built with uv,
content-addressed under ``OUTRIDER_CACHE/environments/DIGEST`` and shared by every revision that asks for the same. The
runner builds it, on the node, in the stage ``preparing``.

An environment's digest is SHA-256 over what decides which files are installed:

- the ABI of its Python (``cpython-311-x86_64-linux-gnu``: implementation, version, processor, C library);
- the requirements, in any order;
- the text of every patch, in its order;
- the lines of the constraint files of pip and uv here, since they bound the versions of everything else;
- the number of the builder below, which counts up whenever it starts to build something else.

Not in it: variables (they are the process's), indexes and directories of wheels (they say where from, not what, and may
hold passwords), and the day: what was resolved once stays, and ``environment.json`` says which versions that were.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from outrider.app import patching, uv
from outrider.app.pip_settings import constraints, pip_settings, uv_flags, uv_variables
from outrider.app.server import Progress, Report
from outrider.errors import EnvironmentFailed, InvalidSource
from outrider.spec.home import Home
from outrider.spec.writing import guard

_COMPLETE = "environment.json"
_BUILDER = 1
_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "UV_PYTHON", "UV_PROJECT_ENVIRONMENT")
"""Variables that would mix another Python's packages into this one."""


class Environment:
    """Python version, packages, environment variables and patches of an engine.

    Args:
        python: ``"3.11"`` or the path of an interpreter; None: the one Outrider runs in.
        packages: pip requirements, best pinned; empty: nothing is built.
        env: variables the engine's process gets.
        patches: unified diffs, applied in order onto the installed packages (``patch -p1`` in site-packages): the text
            of one, or ``outrider:NAME`` for one that ships with Outrider.

    Raises:
        InvalidSource: patches without packages, an unknown ``outrider:NAME``, or something else than texts.
    """

    def __init__(
        self,
        python: str | None = None,
        packages: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        patches: Sequence[str] = (),
    ) -> None:
        if python is not None and not isinstance(python, str):
            raise InvalidSource(f"Environment(python={python!r})", why="python is a text", remedy='Write "3.11".')
        for name, texts in (("packages", packages), ("patches", patches)):
            if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
                raise InvalidSource(
                    f"Environment({name}={texts!r:.60})",
                    why=f"{name} is a list of texts",
                    remedy=f'Write {name}=["…"].',
                )
        if patches and not packages:
            raise InvalidSource(
                "Environment(patches=…) without packages would patch Outrider's own installation",
                remedy="Name the packages to patch, so that they get an environment of their own.",
            )
        self.python = python
        self.packages = tuple(packages)
        self.env = dict(env or {})
        self.patches = tuple(patching.read(patch, number) for number, patch in enumerate(patches, 1))

    @cached_property
    def digest(self) -> str:
        """SHA-256, hex, over what decides the installed files (see above).

        Raises:
            EnvironmentFailed: no such Python, or pip's configuration cannot be read.
        """
        content = {
            "builder": _BUILDER,
            "abi": _abi(self.python),
            "packages": sorted(" ".join(requirement.split()) for requirement in self.packages),
            "patches": [patch.sha256 for patch in self.patches],
            "constraints": constraints(self._uv_variables, os.environ),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def interpreter(self) -> Path:
        """The interpreter that the engine's command line starts with. It exists after :meth:`prepare`."""
        return self.directory / "bin/python" if self.packages else _base_interpreter(self.python)

    @property
    def directory(self) -> Path:
        """Where it lies, or will lie. Without packages there is none."""
        return Home.from_environment().cache / "environments" / self.digest[:32]

    @property
    def lock(self) -> tuple[str, ...]:
        """``name==version`` of everything installed, by name; empty before :meth:`prepare` and without packages."""
        try:
            return tuple(json.loads((self.directory / _COMPLETE).read_text())["lock"]) if self.packages else ()
        except OSError:
            return ()

    def describe(self) -> dict[str, object]:
        """JSON-serialisable form for ``--describe``; no digest, since that is the node's to say."""
        patches = [{"name": patch.name, "sha256": patch.sha256} for patch in self.patches]
        return {"python": self.python, "packages": list(self.packages), "env": self.env, "patches": patches}

    def prepare(self, report: Report) -> None:
        """Build the environment unless it is there. Two replicas that ask at once build it once.

        It is built beside its place and renamed, so that it is there whole or not at all.

        Raises:
            EnvironmentFailed: no such Python, no uv, pip's configuration, what uv said, or a patch that does not fit.
            DiskFull, PermissionRefused, MachineFault: nothing can be written under the cache.
        """
        if not self.packages:
            _base_interpreter(self.python)
            return
        if self._is_there():
            return
        with guard(Home.from_environment().cache):
            self._make(report)

    def _make(self, report: Report) -> None:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        with _locked(Path(f"{self.directory}.lock"), report) as lock:
            if self._is_there():
                return
            building = self.directory.with_name(f"{self.directory.name}.building")
            for leftover in (building, self.directory):
                shutil.rmtree(leftover, ignore_errors=True)
            try:
                self._build(building, lock, report)
                building.rename(self.directory)
            finally:
                shutil.rmtree(building, ignore_errors=True)

    def resolve(self, report: Report) -> tuple[str, ...]:
        """``name==version`` of all that would be installed, asked of the package index; nothing is installed.

        Raises:
            EnvironmentFailed: no such Python, no uv, or what uv said: no such package or version, no wheel that fits,
            or versions that do not go together.
            DiskFull, PermissionRefused, MachineFault: uv cannot be put into the cache.
        """
        if not self.packages or self.lock:
            return self.lock
        with guard(Home.from_environment().cache):
            builder = uv.find(Home.from_environment().cache, self._build_environ(), report)
        report(Progress(f"environment: resolving {', '.join(self.packages)}"))
        argv = ["pip", "compile", "--quiet", "--no-header", "--no-annotate", "--no-config", "--python"]
        argv += [str(_base_interpreter(self.python)), *uv_flags(pip_settings()), "-"]
        purpose = f"find packages for {', '.join(self.packages)}"
        said = builder.run(argv, purpose=purpose, report=report, standard_input="\n".join(self.packages))
        return tuple(line for line in said.splitlines() if "==" in line or " @ " in line)

    def _is_there(self) -> bool:
        # The interpreter is a link to the Python it was made from, which may have gone since.
        return (self.directory / _COMPLETE).exists() and self.interpreter.exists()

    def _build(self, directory: Path, held: int, report: Report) -> None:
        builder = uv.find(Home.from_environment().cache, self._build_environ(), report).holding(held)
        python = str(directory / "bin/python")
        base = _base_interpreter(self.python)
        report(Progress(f"environment: creating from {base.name}"))
        argv = [
            "venv",
            "--quiet",
            "--no-config",
            "--no-project",
            "--relocatable",
            "--python",
            str(base),
            str(directory),
        ]
        builder.run(argv, purpose="create the environment", report=report)
        report(Progress(f"environment: installing {', '.join(self.packages)}"))
        builder.run(
            ["pip", "install", "--python", python, *uv_flags(pip_settings()), "--requirements", "-"],
            purpose=f"install {', '.join(self.packages)}",
            report=report,
            standard_input="\n".join(self.packages),
        )
        (site,) = directory.glob("lib/python*/site-packages")
        for number, patch in enumerate(self.patches, 1):
            report(Progress(f"environment: patch {number} of {len(self.patches)}"))
            patch.apply(site)
        lock = builder.run(["pip", "freeze", "--python", python], purpose="list its packages", report=report)
        record = {
            "abi": _abi(self.python),
            "packages": self.packages,
            "constraints": constraints(self._uv_variables, os.environ),
            "lock": lock.split("\n")[:-1],
            "patches": [{"name": patch.name, "sha256": patch.sha256} for patch in self.patches],
        }
        (directory / _COMPLETE).write_text(json.dumps(record, indent=1))

    def _build_environ(self) -> dict[str, str]:
        environ = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
        own = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1", "NO_COLOR": "1"}
        # In the same file system as the environments, whose files are then links into it: wheels are unpacked once.
        environ.setdefault("UV_CACHE_DIR", str(Home.from_environment().cache / "uv"))
        return environ | self._uv_variables | own

    @cached_property
    def _uv_variables(self) -> dict[str, str]:
        return uv_variables(pip_settings(), os.environ)


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


def _abi(python: str | None) -> str:
    base = _base_interpreter(python)
    if base == Path(sys.executable):
        return str(sysconfig.get_config_var("SOABI"))
    code = "import sysconfig; print(sysconfig.get_config_var('SOABI'))"
    try:
        done = subprocess.run([base, "-I", "-c", code], capture_output=True, text=True, check=False)
    except OSError as error:
        raise EnvironmentFailed(f"{base} cannot be run", why=error.strerror, remedy="Name a Python.") from error
    if done.returncode:
        raise EnvironmentFailed(f"{base} is no Python", why=done.stderr.strip()[-200:] or None, remedy="Name a Python.")
    return done.stdout.strip()


@contextmanager
def _locked(path: Path, report: Report) -> Iterator[int]:
    """One builder at a time; a second one says that it waits. The value is the lock's descriptor.

    The kernel frees the lock when its builder has died, and the processes that were given the descriptor.
    """
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(Progress("environment: another replica is building it"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()
