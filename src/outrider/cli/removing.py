"""Removing an endpoint so that nothing of it is left: its replicas end first, then what is stored goes."""

from __future__ import annotations

import time

from outrider.client.http import Client
from outrider.errors import ControllerUnreachable, OutriderError, StartTimeout

_POLL = 0.1
_LONGEST = 120.0
"""Seconds for replicas to end: their grace period, the pause before a kill, and some."""


def remove(client: Client, name: str, *, longest: float = _LONGEST) -> None:
    """Stop an endpoint, wait until its replicas are gone, and purge it."""
    client.act(name, "stop")
    deadline = time.monotonic() + longest
    while client.endpoint(name)["replicas"] and time.monotonic() < deadline:
        time.sleep(_POLL)
    client.delete(name, purge=True)


def remove_failed(client: Client, name: str, error: OutriderError) -> None:
    """Remove what a failed creation made, and say so in its error. An unreachable controller is left alone."""
    if isinstance(error, ControllerUnreachable):
        return
    remove(client, name)
    error.details["removed"] = name
    if isinstance(error, StartTimeout) and error.remedy.startswith("It goes on"):
        error.remedy = "It was removed. Allow more time with --timeout, or do not wait: --no-wait"
