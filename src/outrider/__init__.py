"""Outrider: LLM endpoints that their owners can see into, change and keep fast.

The public names, imported when they are first used (PEP 562): importing :mod:`outrider` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from outrider._version import __version__

if TYPE_CHECKING:
    from outrider.app.app import App, enter, exit
    from outrider.app.environment import Environment
    from outrider.client.http import Client
    from outrider.engines.llamacpp import LlamaCpp
    from outrider.engines.sglang import SGLang
    from outrider.engines.speculation import Speculation
    from outrider.engines.vllm import VLLM
    from outrider.errors import OutriderError
    from outrider.models.checked import Adapter, DraftWeights, OwnWeights
    from outrider.models.weights import Weights
    from outrider.spec.drafter import Drafter
    from outrider.spec.endpoint import Endpoint
    from outrider.spec.facts import ModelFacts
    from outrider.spec.objective import Objective
    from outrider.spec.regions import Regions
    from outrider.spec.resources import Resources
    from outrider.spec.routing import Routing
    from outrider.spec.scaling import Scaling
    from outrider.spec.workload import Workload

_HOMES = {
    "Adapter": "models.checked",
    "App": "app.app",
    "Client": "client.http",
    "DraftWeights": "models.checked",
    "Drafter": "spec.drafter",
    "Endpoint": "spec.endpoint",
    "Environment": "app.environment",
    "LlamaCpp": "engines.llamacpp",
    "ModelFacts": "spec.facts",
    "Objective": "spec.objective",
    "OutriderError": "errors",
    "OwnWeights": "models.checked",
    "Regions": "spec.regions",
    "Resources": "spec.resources",
    "Routing": "spec.routing",
    "SGLang": "engines.sglang",
    "Scaling": "spec.scaling",
    "Speculation": "engines.speculation",
    "VLLM": "engines.vllm",
    "Weights": "models.weights",
    "Workload": "spec.workload",
    "enter": "app.app",
    "exit": "app.app",
}

__all__ = [
    "VLLM",
    "Adapter",
    "App",
    "Client",
    "DraftWeights",
    "Drafter",
    "Endpoint",
    "Environment",
    "LlamaCpp",
    "ModelFacts",
    "Objective",
    "OutriderError",
    "OwnWeights",
    "Regions",
    "Resources",
    "Routing",
    "SGLang",
    "Scaling",
    "Speculation",
    "Weights",
    "Workload",
    "__version__",
    "enter",
    "exit",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'outrider' has no attribute {name!r}")
    value = getattr(import_module(f"outrider.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
