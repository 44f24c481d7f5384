"""No proxy: the client speaks to the stand-in engine itself. What the others add is measured against this."""

from __future__ import annotations

from benchmarks.gateway.peers import Command, Place

NAME = "direct"
INSTALL = ""


def version() -> str | None:
    """Always there."""
    return ""


def command(place: Place) -> Command:
    """Nothing to start."""
    return [], {}
