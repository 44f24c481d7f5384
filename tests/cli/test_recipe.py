from __future__ import annotations

import json

from tests.cli.conftest import Run


def test_recipes_are_listed_and_shown_without_a_controller(outrider: Run) -> None:
    listed = json.loads(outrider("recipe", "list", "--json").out)
    first = listed[0]["id"]
    assert first in outrider("recipe", "list").out
    assert json.loads(outrider("recipe", "show", first, "--json").out) == listed[0]
    assert first in outrider("recipe", "show", first).out
    assert outrider("recipe", "show", "no/such").code == 3
