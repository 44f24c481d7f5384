"""Asking before an endpoint is made of a recipe that nobody has tested on its hardware."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import typer

from outrider.cli.terminal import console, say
from outrider.errors import UsageError


def ask_if_untested(plan: Mapping[str, Any], *, ask: bool) -> None:
    """Go on with a tested recipe, or once somebody said yes.

    Args:
        plan: as the REST API gives it.
        ask: whether a question may be put; it is only on a terminal.

    Raises:
        UsageError: the recipe is untested and nobody can be asked.
        typer.Abort: the answer was no.
    """
    provenance = plan["provenance"]
    if provenance["status"] != "untested":
        return
    note = provenance.get("note") or provenance.get("url") or "its source says no more"
    if not (ask and sys.stdin.isatty() and console.is_terminal):
        raise UsageError(
            f"{plan['recipe']} is untested",
            why=note,
            remedy="Say --yes to make the endpoint all the same, or name a recipe: outrider recipe list",
        )
    say(f"{plan['recipe']} is untested: {note}", "red")
    typer.confirm("Make the endpoint all the same?", abort=True)
