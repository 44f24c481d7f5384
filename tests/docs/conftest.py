"""A model file for the readers of pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.real import smollm


@pytest.fixture(scope="session")
def gguf() -> Path:
    """What stands for a reader's own GGUF file."""
    return smollm()
