"""Which engines are installed, in which Python, and whether they import. Each import runs in a child: it may crash."""

from __future__ import annotations

import json
import os
import signal
import site
import subprocess
import sys
import tempfile
from pathlib import Path

from outrider.engines.builds import builds
from outrider.placement.machine import InstalledEngine
from outrider.spec.home import Home

_TIMEOUT = 120.0
"""Seconds an import may take: vLLM's, cold, takes tens of them."""
_VERSIONS = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def installed_engines(home: Home) -> tuple[InstalledEngine, ...]:
    """The engines in Outrider's own Python, and in the environments that its cache holds."""
    own = Path(sys.executable)
    built = sorted(path.parent / "bin/python" for path in home.cache.glob("environments/*/environment.json"))
    return tuple(engine for python in (own, *built) for engine in _in_python(python, own=python == own))


def _in_python(python: Path, *, own: bool) -> list[InstalledEngine]:
    known = {build.package: build for build in builds()}
    output, trouble = _run(python, _VERSIONS, *known)
    versions: dict[str, str] = {} if trouble else json.loads(output)
    found = {package: build for package, build in known.items() if package in versions}
    # A third-party build may carry upstream's name beside its own, for the engine's code that asks for it.
    third = {build.engine for build in found.values() if build.third_party}
    return [
        InstalledEngine(python, own, build.engine, package, versions[package], _import_trouble(python, build.module))
        for package, build in found.items()
        if build.third_party or build.engine not in third
    ]


def _import_trouble(python: Path, module: str) -> str | None:
    return _run(python, f"import {module}")[1]


def _run(python: Path, code: str, *arguments: str) -> tuple[str, str | None]:
    """What the code printed, and why it failed or None. Its home goes again: some engines write there on import."""
    with tempfile.TemporaryDirectory(prefix="outrider-") as home:
        env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        env |= {"HOME": home, "PYTHONUSERBASE": site.getuserbase(), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [str(python), "-c", code, *arguments]
        try:
            done = subprocess.run(
                command, env=env, cwd=home, capture_output=True, text=True, check=False, timeout=_TIMEOUT
            )
        except subprocess.TimeoutExpired:
            return "", f"it took more than {_TIMEOUT:.0f} s"
        except OSError as error:
            return "", str(error)
    if done.returncode < 0:
        return "", f"it was ended by {signal.Signals(-done.returncode).name}"
    if done.returncode:
        return "", (done.stderr.strip().splitlines() or ["it failed without a word"])[-1]
    return done.stdout, None
