"""LiteLLM's proxy (Python), by its "Production best practices": a master key, one worker per core, no debug output.

It has no database here, so it does less than it would in production. Configured by ``litellm.yaml``.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.gateway.engine import MODEL
from benchmarks.gateway.peers import KEY, Command, Place, installed, program

NAME = "litellm"
INSTALL = "make .venv-bench-peers"

_TEMPLATE = Path(__file__).with_name("litellm.yaml")
_DEPLOYMENT = """\
  - model_name: {model}
    litellm_params:
      model: openai/{model}
      api_base: {url}/v1
      api_key: engine-key
"""


def version() -> str | None:
    """As installed in the peers' environment."""
    return installed("litellm")


def command(place: Place) -> Command:
    """``litellm`` with one worker."""
    deployments = "".join(_DEPLOYMENT.format(model=MODEL, url=url) for url in place.workers)
    configuration = place.directory / "litellm.yaml"
    configuration.write_text(_TEMPLATE.read_text().replace("{deployments}", deployments).replace("{key}", KEY))
    argv = [program("litellm"), "--config", str(configuration), "--host", "127.0.0.1", "--port", str(place.port)]
    environment = {"LITELLM_MODE": "PRODUCTION", "LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    return [*argv, "--num_workers", "1", "--telemetry", "False"], environment
