"""SMG, the Shepherd Model Gateway (Rust): static HTTP workers, as in its guide "Multiple workers", its default policy.

Its key is checked (``--api-key``) and logs are down to warnings. It makes one thread for the one core it may run on.
Its other policies (``round_robin``, ``power_of_two``, ``random``) cost the same within the spread: tried, not shown.
"""

from __future__ import annotations

from benchmarks.gateway.peers import KEY, Command, Place, installed, program

NAME = "smg"
INSTALL = "make .venv-bench-peers"


def version() -> str | None:
    """As installed in the peers' environment."""
    return installed("smg")


def command(place: Place) -> Command:
    """``smg launch`` with static workers."""
    argv = [program("smg"), "launch", "--host", "127.0.0.1", "--port", str(place.port), "--api-key", KEY]
    argv += ["--worker-urls", *place.workers, "--policy", "cache_aware", "--log-level", "warn"]
    return [*argv, "--prometheus-port", str(place.spare)], {}
