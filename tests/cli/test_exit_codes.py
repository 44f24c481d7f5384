from __future__ import annotations

import re
from pathlib import Path

from outrider.cli.exit_codes import epilog, families, page


def test_the_page_is_current() -> None:
    written = Path(__file__).parents[2] / "docs/reference/exit-codes.md"
    assert written.read_text() == page(), "run: python -m outrider.cli.exit_codes > docs/reference/exit-codes.md"


def test_every_family_has_a_number_of_its_own() -> None:
    assert sorted(families()) == list(range(2, 2 + len(families())))
    assert [int(number) for number in re.findall(r"^  (\d+)  ", epilog(), re.M)] == [0, 1, *families()]
