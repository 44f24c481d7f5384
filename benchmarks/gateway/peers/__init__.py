"""Who is compared: one module each, with its configuration in the same folder.

A module has ``NAME``, ``INSTALL`` (how to get it) and two functions: ``version()``, None where it is not installed, and
``command(place)``, which writes what configuration it needs and returns the command line and environment to start it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

KEY = "sk-bench-0123456789abcdef0123456789abcdef"
"""What the client sends; every peer that can check keys is given it to check."""

VENV = Path(os.environ.get("OUTRIDER_BENCH_PEERS", ".venv-bench-peers"))
"""Where the extra ``bench-peers`` is installed: apart, because its dependencies are not Outrider's."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a peer is to run.

    Attributes:
        port: to listen on, at 127.0.0.1.
        spare: a free port, for metrics where a peer serves them apart.
        engines: ports of its two workers.
        directory: for the files it needs, empty at first.
    """

    port: int
    spare: int
    engines: tuple[int, ...]
    directory: Path

    @property
    def workers(self) -> list[str]:
        """URLs of its workers."""
        return [f"http://127.0.0.1:{engine}" for engine in self.engines]


Command = tuple[list[str], dict[str, str]]
"""A command line and the environment variables it needs beside the usual ones."""


def installed(package: str) -> str | None:
    """Version of a package in :data:`VENV`, read off its metadata directory; None where it is not there."""
    name = package.replace("-", "_")
    for found in VENV.glob(f"lib/python3*/site-packages/{name}-*.dist-info"):
        return found.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    return None


def program(name: str) -> str:
    """Path of a program of :data:`VENV`."""
    return str(VENV / "bin" / name)
