"""How much an installation weighs: the files of every distribution it needs, as installed here."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

BASE_LIMIT = 150
CPU_LIMIT = 260
"""MB, the engine included."""
_BARE_VENV = 30
"""MB of a new virtual environment with pip and setuptools."""


def _needs(name: str, extra: str = "") -> set[str]:
    """A distribution and, transitively, what it requires without extras."""
    found: set[str] = set()
    waiting = [(name, extra)]
    while waiting:
        current, wanted = waiting.pop()
        key = re.sub(r"[-_.]+", "-", current).lower()
        if key in found and not wanted:
            continue
        try:
            requires = distribution(current).requires or []
        except PackageNotFoundError:
            continue  # for another platform or Python
        found.add(key)
        for line in requires:
            requirement, _, marker = line.partition(";")
            if "extra" not in marker or (wanted and f'"{wanted}"' in marker.replace("'", '"')):
                waiting.append((re.split(r"[\s\[<>=!~(]", requirement.strip())[0], ""))
    return found


def _megabytes(names: set[str]) -> float:
    total = 0
    for name in names - {"outrider"}:
        for file in distribution(name).files or []:
            path = Path(str(file.locate()))
            total += path.stat().st_size if path.is_file() else 0
    return total / 1e6


def test_base_and_cpu_stay_small() -> None:
    base, cpu = _needs("outrider"), _needs("outrider", "cpu")
    weights = {"base": _megabytes(base) + _BARE_VENV, "cpu": _megabytes(cpu) + _BARE_VENV}
    print(weights)
    assert "xllamacpp" in cpu - base
    assert "torch" not in cpu
    assert weights["base"] <= BASE_LIMIT
    assert weights["cpu"] <= CPU_LIMIT
