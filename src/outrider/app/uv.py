"""uv: found on this machine or fetched from the package index, and run with its progress shown.

Source: https://docs.astral.sh/uv/.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from outrider.app.server import Progress, Report
from outrider.errors import DiskFull, EnvironmentFailed

VERSION = "0.13.9"
"""Fetched where there is none."""
_OLDEST = (0, 8)
"""A uv on the PATH must be as new as this: older ones read other variables."""
_LOG_LINES = 40
_SIZES = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_BEGUN = re.compile(r"\s*(?:Downloading|Building) (?P<name>\S+)(?: \((?P<size>[\d.]+)(?P<unit>[KMG]?i?B)\))?\s*")
_ENDED = re.compile(r"\s*(?:Downloaded|Built) (?P<name>\S+)\s*")
_FRAME = re.compile(r"^[\s│├╰─▶×·]*(?:error: |hint: )?")
_CAUSE = re.compile(r"[:.]? cause: ")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Uv:
    """One uv executable.

    Args:
        path: of the executable.
        environ: its whole environment.
        held: a file descriptor that it, and what it starts, keep open until they end; None: none.
    """

    def __init__(self, path: Path, environ: Mapping[str, str], held: int | None = None) -> None:
        self.path = path
        self._environ = dict(environ)
        self._held = held

    def holding(self, descriptor: int) -> Uv:
        """The same uv, which keeps a lock's descriptor open: a uv that outlives its builder still writes files."""
        return Uv(self.path, self._environ, descriptor)

    def run(self, arguments: Sequence[str], *, purpose: str, report: Report, standard_input: str = "") -> str:
        """Run it to its end; its standard output.

        Args:
            purpose: what it is for, in the words of ``Could not …``.

        Raises:
            EnvironmentFailed: it failed; ``why`` is its last message, ``details["log"]`` its last lines.
            DiskFull: no space is left.
        """
        progress, log = _Downloads(report), deque[str](maxlen=_LOG_LINES)
        with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as given:
            given.write(standard_input)
            given.seek(0)
            with subprocess.Popen(
                [str(self.path), *arguments],
                stdin=given,
                stdout=said,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=self._environ,
                pass_fds=() if self._held is None else (self._held,),
            ) as child:
                try:
                    for line in child.stderr or ():
                        log.append(_COLOUR.sub("", line.rstrip()))
                        progress.line(log[-1])
                    child.wait()
                except BaseException:
                    child.kill()
                    raise
            if child.returncode:
                raise _failure(purpose, list(log), child.returncode)
            said.seek(0)
            return said.read()


class _Downloads:
    """uv's lines as progress: what is being fetched, and how many bytes of those announced have come."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._sizes: dict[str, int] = {}
        self._done = 0

    def line(self, text: str) -> None:
        if begun := _BEGUN.fullmatch(text):
            if begun["size"]:
                self._sizes[begun["name"]] = round(float(begun["size"]) * _SIZES[begun["unit"]])
        elif ended := _ENDED.fullmatch(text):
            self._done += self._sizes.get(ended["name"], 0)
        elif text.startswith("Prepared"):
            self._done = sum(self._sizes.values())
        else:
            return
        detail = f"environment: {text.strip()[0].lower()}{text.strip()[1:]}"
        total = sum(self._sizes.values())
        self._report(Progress(detail, self._done, total) if total else Progress(detail))


def find(cache: Path, environ: Mapping[str, str], report: Report) -> Uv:
    """uv from beside Outrider's Python or the PATH, else from the cache, else fetched into it.

    Raises:
        EnvironmentFailed: there is none, and the package index gave none.
    """
    if (there := present(cache, environ)) is not None:
        return Uv(there, environ)
    own = _fetched(cache)
    report(Progress(f"environment: fetching uv {VERSION}, which builds it"))
    _fetch(own)
    return Uv(own, environ)


def present(cache: Path, environ: Mapping[str, str]) -> Path | None:
    """A uv beside Outrider's Python or on the PATH that is new enough, else one fetched before; None: there is none."""
    beside = Path(sys.executable).with_name("uv")
    on_path = shutil.which("uv", path=environ.get("PATH"))
    for candidate in (beside, Path(on_path) if on_path else None):
        if candidate is not None and candidate.is_file() and _new_enough(candidate):
            return candidate
    own = _fetched(cache)
    return own if own.exists() else None


def _fetched(cache: Path) -> Path:
    return cache / "tools" / f"uv-{VERSION}"


def _new_enough(path: Path) -> bool:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return False
    found = re.match(r"uv (\d+)\.(\d+)", done.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= _OLDEST


def _fetch(target: Path) -> None:
    """The executable out of uv's wheel. By pip, which knows the user's index; atomic, so that builders may race."""
    target.parent.mkdir(parents=True, exist_ok=True)
    remedy = "Install uv (pip install uv), or make the package index reachable."
    with tempfile.TemporaryDirectory(dir=target.parent) as workspace:
        argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
        argv += ["--disable-pip-version-check", "--quiet", "--dest", workspace, f"uv=={VERSION}"]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        wheels = list(Path(workspace).glob("uv-*.whl"))
        if done.returncode or not wheels:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR") or "No module" in line]
            why = lines[-1].removeprefix("ERROR: ") if lines else "pip gave no wheel and no reason"
            raise EnvironmentFailed(f"Could not fetch uv {VERSION}", why=why, remedy=remedy)
        executable = Path(workspace) / "uv"
        with zipfile.ZipFile(wheels[0]) as archive, executable.open("wb") as file:
            name = next((name for name in archive.namelist() if name.endswith(".data/scripts/uv")), None)
            if name is None:
                raise EnvironmentFailed(f"Could not fetch uv {VERSION}", why="its wheel holds no uv", remedy=remedy)
            file.write(archive.read(name))
        executable.chmod(0o755)
        executable.replace(target)


def _failure(purpose: str, log: list[str], code: int) -> EnvironmentFailed | DiskFull:
    text = "\n".join(log)
    if "No space left on device" in text or "os error 28" in text:
        return DiskFull(
            f"Could not {purpose}",
            why="no space is left under the cache",
            remedy="Free some, or set OUTRIDER_CACHE elsewhere.",
        )
    return EnvironmentFailed(
        f"Could not {purpose}",
        why=_message(log) or f"uv ended with code {code} and no reason",
        remedy="Correct Environment(python=…, packages=…) in serve.py, or pip's configuration, which uv is given.",
        details={"log": log},
    )


def _message(log: Sequence[str]) -> str:
    """uv's last message on one line, without a full stop; what caused what stands behind a colon.

    It begins with ``×`` or ``error:`` and goes on in indented or framed lines.
    """
    starts = [number for number, line in enumerate(log) if line.lstrip().startswith(("×", "error:"))]
    lines = log[starts[-1] :] if starts else log[-4:]
    whole = " ".join(part for line in lines if (part := _FRAME.sub("", line).strip()))
    return _CAUSE.sub(": ", whole).removesuffix(".")
