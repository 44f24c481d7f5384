"""The checked-in description is the API's."""

from __future__ import annotations

import json
from pathlib import Path

from outrider.api.openapi import description

FILE = Path(__file__).parents[2] / "docs/reference/openapi.json"


def test_the_file_is_current() -> None:
    assert json.loads(FILE.read_text()) == json.loads(json.dumps(description())), "run: make openapi"
