"""A home of its own for each test, whose short socket directory goes again afterwards."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.spec.home import Home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("OUTRIDER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OUTRIDER_CACHE", str(tmp_path / "cache"))
    for variable in ("OUTRIDER_URL", "OUTRIDER_KEY", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(variable, raising=False)
    made = Home.from_environment()
    made.create()
    yield made
    shutil.rmtree(made.sockets, ignore_errors=True)
