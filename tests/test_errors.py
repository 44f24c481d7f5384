"""The tree of errors, and the page made from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from outrider.errors import table

ROOT = Path(__file__).parents[1]


def test_codes_are_unique_and_documented() -> None:
    kinds = table()
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert all(kind.__doc__ for kind in kinds)


def test_the_page_is_current() -> None:
    made = subprocess.run([sys.executable, ROOT / "scripts/exit-codes"], capture_output=True, text=True, check=True)
    assert (ROOT / "docs/reference/exit-codes.md").read_text() == made.stdout
