"""What many tests need."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.e2e.outrider_process import Outrider

# How long an example takes says nothing where other work shares the cores. Everything else is as Hypothesis has it.
settings.register_profile("outrider", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("outrider")


@pytest.fixture(scope="session")
def weights_cache() -> Path:
    """A cache that keeps the model between runs, so that it is downloaded once."""
    where = os.environ.get("OUTRIDER_TEST_CACHE") or Path.home() / ".cache/outrider-tests"
    return Path(where)


@pytest.fixture
def outrider(tmp_path: Path, weights_cache: Path) -> Iterator[Outrider]:
    """A private Outrider, taken down afterwards."""
    private = Outrider(tmp_path, weights_cache)
    yield private
    private.remove()
