"""An environment that has an engine's package by name only: for what is decided before an engine runs."""

from __future__ import annotations

import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path

from outrider.app.server import Progress


class Installed:
    """This Python, with the metadata of one more package.

    Args:
        package, version: its name and version; no code comes with them.
        modules: file name → source of modules that its interpreter finds.
    """

    def __init__(self, package: str, version: str, modules: dict[str, str] | None = None) -> None:
        root = Path(tempfile.mkdtemp(prefix="outrider-"))
        weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)
        metadata = root / "site" / f"{package}-{version}.dist-info/METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        for name, text in (modules or {}).items():
            (root / "site" / name).parent.mkdir(parents=True, exist_ok=True)
            (root / "site" / name).write_text(text)
        self.interpreter = root / "python"
        self.interpreter.write_text(f'#!/bin/sh\nPYTHONPATH={root}/site exec {sys.executable} "$@"\n')
        self.interpreter.chmod(0o755)
        self.env = {"OF_THE_ENVIRONMENT": "yes"}

    def prepare(self, report: Callable[[Progress], None]) -> None:
        """It is there."""
