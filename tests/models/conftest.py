from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.real import smollm


@pytest.fixture(scope="session")
def model() -> Path:
    """The real model's file."""
    return smollm()


@pytest.fixture
def cache_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache that ``Cache.from_environment`` finds."""
    root = tmp_path / "cache"
    monkeypatch.setenv("OUTRIDER_CACHE", str(root))
    return root
