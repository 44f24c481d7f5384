"""Where requests enter and replicas run. Placements without regions accept these, and the plan says so."""

from __future__ import annotations

from outrider.spec.base import SpecModel


class Regions(SpecModel):
    """Region names are the placement's own."""

    routing: str | None = None
    """Where requests enter. None: where the gateway is."""
    compute: tuple[str, ...] = ()
    """Where replicas may run. Empty: anywhere, the least that limits the planner."""
