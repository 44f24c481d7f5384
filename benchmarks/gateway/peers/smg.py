"""SMG, the Shepherd Model Gateway (Rust): static HTTP workers and its default policy, as in its "Multiple workers" guide.

Its key is checked (``--api-key``), logs are down to warnings, and it is one process like the others; its Tokio runtime is
bound to the one core that the process may run on.
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
