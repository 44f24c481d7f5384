"""vLLM Router (Rust): two workers, which it needs, and its default policy, as in its README's quick start."""

from __future__ import annotations

from benchmarks.gateway.peers import KEY, Command, Place, installed, program

NAME = "vllm-router"
INSTALL = "make .venv-bench-peers"


def version() -> str | None:
    """As installed in the peers' environment."""
    return installed("vllm-router")


def command(place: Place) -> Command:
    """``vllm-router`` with static workers."""
    argv = [program("vllm-router"), "--host", "127.0.0.1", "--port", str(place.port), "--api-key", KEY]
    argv += ["--worker-urls", *place.workers, "--policy", "cache_aware", "--log-level", "warning"]
    return [*argv, "--prometheus-port", str(place.spare)], {}
