"""Marks everything here ``drafting``, and keeps torch to one thread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Only `make test-drafting` runs these: they import torch, and train."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.drafting)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """More would only be in one another's way, and could change sums."""
    torch.set_num_threads(1)
