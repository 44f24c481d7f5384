"""llama.cpp, through the prebuilt wheel ``xllamacpp``: its own C++ OpenAI server in a child process."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from outrider.app.server import Launch, Progress, Report, Weights
from outrider.engines import warmup
from outrider.engines.probes import EngineAddress, lists_model
from outrider.engines.process import EngineProcess
from outrider.errors import EngineMissing, InvalidInput

_SCRIPT = Path(__file__).with_name("llamacpp_serve.py")
_EXTRA = (
    "n_batch",
    "n_ubatch",
    "cache_prompt",
    "n_cache_reuse",
    "cache_ram_mib",
    "n_gpu_layers",
    "swa_full",
    "ctx_shift",
    "slot_prompt_similarity",
    "n_threads_http",
    "rope_freq_base",
    "rope_freq_scale",
    "chat_template",
)


class Environment(Protocol):
    """What an engine needs of its environment."""

    env: dict[str, str]

    @property
    def interpreter(self) -> Path:
        """Its Python."""
        ...

    def prepare(self, report: Report) -> None:
        """Build it."""
        ...


class LlamaCpp:
    """A llama.cpp server for one GGUF file.

    Args:
        weights: the GGUF file.
        environment: the Python that has ``xllamacpp``; None: Outrider's own (the extra ``cpu``).
        threads: threads that decode. 1, because llama.cpp's threads wait for each other by spinning: on a machine of
            2 busy cores, 2 threads decoded 4 tokens/s where 1 thread decoded 146. Raise it on cores of your own.
        slots: requests decoded at once (4: aggregate throughput grows little beyond on one core).
        context: tokens a request may hold, prompt and answer; None: what the model was trained for.
        embeddings: also serve ``/v1/embeddings``, with mean pooling; chat goes on working.
        warm_up: payloads ``{"path", "body"}`` that must have worked once; None: text and JSON schema.
        extra: further fields of llama.cpp's parameters.
    """

    name = "llamacpp"

    def __init__(
        self,
        *,
        weights: Weights,
        environment: Environment | None = None,
        threads: int = 1,
        slots: int = 4,
        context: int | None = None,
        embeddings: bool = False,
        warm_up: Sequence[Mapping[str, Any]] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        for label, value in (("threads", threads), ("slots", slots), ("context", context)):
            if value is not None and value < 1:
                raise InvalidInput(f"LlamaCpp({label}={value!r})", why=f"{label} must be 1 or more")
        for key in extra or {}:
            if key not in _EXTRA:
                near = difflib.get_close_matches(key, _EXTRA, 1)
                raise InvalidInput(
                    f"LlamaCpp has no parameter {key!r}",
                    remedy=f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(_EXTRA)}.",
                )
        self.weights = weights
        self.environment = environment
        self.threads = threads
        self.slots = slots
        self.context = context
        self.embeddings = embeddings
        self.payloads = warmup.default_payloads(embeddings=embeddings) if warm_up is None else tuple(warm_up)
        self.extra = dict(extra or {})
        self._file: Path | None = None
        self._process: EngineProcess | None = None
        self._address: EngineAddress | None = None
        self._served = ""

    def describe(self) -> dict[str, Any]:
        """Name and flags, JSON-serialisable."""
        flags = {"threads": self.threads, "slots": self.slots, "context": self.context, "embeddings": self.embeddings}
        return {"name": self.name, "flags": flags | self.extra}

    def prepare(self, report: Report) -> None:
        """Environment, engine package, weights.

        Raises:
            EngineMissing: no ``xllamacpp`` in the environment's Python; and what weights and environment raise.
        """
        if self.environment is not None:
            self.environment.prepare(report)
        report(Progress("checking the engine"))
        probe = "import importlib.util, sys; sys.exit(importlib.util.find_spec('xllamacpp') is None)"
        if subprocess.run([str(self._interpreter), "-c", probe], check=False, capture_output=True).returncode:
            raise EngineMissing(
                "llama.cpp is not installed",
                why=f"{self._interpreter} has no package xllamacpp",
                remedy="Install it with: pip install 'outrider[cpu]'",
            )
        self._file = self.weights.prepare(report)

    def start(self, launch: Launch) -> None:
        """Start the child. Its key travels in a 0600 file, never on the command line."""
        config = launch.scratch / "llamacpp.json"
        content = json.dumps({"params": self.parameters(launch)})
        with os.fdopen(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(content)
        env = {**os.environ, **(self.environment.env if self.environment else {})}
        argv = [str(self._interpreter), str(_SCRIPT), str(config)]
        self._served = launch.name
        self._address = EngineAddress(f"http://{launch.host}:{launch.port}", launch.key)
        self._process = EngineProcess(argv, env=env, log=launch.log)

    def parameters(self, launch: Launch) -> dict[str, Any]:
        """llama.cpp's parameters by their own names; the context is divided among slots there."""
        params: dict[str, Any] = {
            "model.path": str(self._file),
            "model_alias": [launch.name],
            "hostnames": [launch.host],
            "port": launch.port,
            "api_keys": [launch.key],
            "cpuparams.n_threads": self.threads,
            "cpuparams_batch.n_threads": self.threads,
            "n_parallel": self.slots,
            "n_ctx": (self.context or 0) * self.slots,
            "endpoint_metrics": True,
            "ui": False,
        }
        if self.embeddings:
            params |= {
                "embedding": True,
                "pooling_type": {"enum": "llama_pooling_type", "member": "LLAMA_POOLING_TYPE_MEAN"},
            }
        return params | self.extra

    def poll(self) -> int | None:
        """The child's exit code, or None."""
        return self._process.poll() if self._process else None

    def probe(self) -> bool:
        """Port open, model listed under the endpoint's name."""
        return self._address is not None and lists_model(self._address, self._served)

    def warm_up(self, report: Report) -> None:
        """One real completion and one JSON-schema completion (and an embedding)."""
        if self._address is not None:
            warmup.run(self._address, self._served, self.payloads, report)

    def stop(self, grace: float) -> None:
        """End the child."""
        if self._process is not None:
            self._process.stop(grace)

    @property
    def metrics_url(self) -> str | None:
        """Prometheus text, with the engine's key."""
        return f"{self._address.url}/metrics" if self._address else None

    @property
    def _interpreter(self) -> Path:
        return self.environment.interpreter if self.environment else Path(sys.executable)
