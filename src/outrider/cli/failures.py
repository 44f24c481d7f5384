"""How a command fails: three lines on stderr, or a problem object on stdout; a traceback only in a file."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from datetime import datetime
from pathlib import Path

from outrider.cli.text import clean
from outrider.errors import OutriderError
from outrider.spec.home import Home

_LOG_SHOWN = 10
"""Lines of a dead replica's log that are shown; the event keeps all of them."""


def show(error: OutriderError, *, as_json: bool) -> None:
    """Print an error: what, why, next, and the last lines of a replica's log where the error carries one."""
    if as_json:
        print(json.dumps(error.problem(), indent=2, ensure_ascii=False))
        return
    lines = [f"error: {clean(error.what)}"]
    if error.why:
        lines.append(f"  why:  {clean(error.why)}")
    lines.append(f"  next: {clean(error.remedy)}")
    if error.details.get("removed"):
        lines.append(f"  note: {clean(str(error.details['removed']))} was removed again; nothing half-made is left")
    log = error.details.get("log")
    if isinstance(log, list) and log:
        lines += ["  log:", *(f"    {clean(str(line))}" for line in log[-_LOG_SHOWN:])]
    print("\n".join(lines), file=sys.stderr)


def crashed(error: Exception, *, now: datetime) -> OutriderError:
    """An unforeseen exception as an error, its traceback in a file (0600) of the home, or where one can be written."""
    text = "".join(traceback.format_exception(error))
    name = f"crash-{now:%Y%m%dT%H%M%SZ}-{os.getpid()}.txt"
    try:
        path = _write(Home.from_environment().run / name, text)
    except OSError:
        path = _write(Path(tempfile.mkdtemp(prefix="outrider-")) / name, text)
    return OutriderError(
        "This should not have happened",
        why=f"{type(error).__name__}: {error}",
        remedy=f"Please report it with {path}",
        details={"traceback": str(path)},
    )


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    return path
