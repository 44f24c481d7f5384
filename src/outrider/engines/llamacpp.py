"""llama.cpp, through the prebuilt wheel ``xllamacpp``: its own C++ OpenAI server in a child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.app.server import Launch, Progress, Report, Weights
from outrider.engines import warmup
from outrider.engines.base import EngineEnvironment
from outrider.engines.child import EngineChild, port_taken
from outrider.engines.llamacpp_flags import FLASH_ATTENTION, POOLING, encoded, member
from outrider.engines.llamacpp_serve import PORT_TAKEN
from outrider.engines.llamacpp_speculation import drafter_file, parameters
from outrider.engines.probes import EngineAddress
from outrider.engines.process import engine_variables
from outrider.engines.speculation import Speculation, checked_speculation
from outrider.errors import EngineMissing, InvalidInput, PortTaken, ReplicaFailed

_SCRIPT = Path(__file__).with_name("llamacpp_serve.py")
_PACKAGE = "xllamacpp"


class LlamaCpp(EngineChild):
    """A llama.cpp server for one GGUF file.

    Args:
        weights: the GGUF file.
        environment: the Python that has ``xllamacpp``; None: Outrider's own (the extra ``cpu``).
        threads: threads that decode. 1, because llama.cpp's threads wait for each other by spinning: on a machine of
            2 busy cores, 2 threads decoded 4 tokens/s where 1 thread decoded 146. Raise it on cores of your own.
        slots: requests decoded at once; further ones wait (4: beyond, one core's throughput hardly grows).
        context: tokens that each request may hold, prompt and answer; memory is set aside for ``context`` × ``slots``.
            None: as many as the model was trained for, but shared by all slots.
        embeddings: also serve ``/v1/embeddings``, with mean pooling; chat goes on working.
        batch_size: tokens of all slots that one step may take together (2048, llama.cpp's own).
        micro_batch_size: tokens computed at a time. None: 512, llama.cpp's own; with ``embeddings`` as many as a
            request and ``batch_size`` allow, since an input to embed must fit whole. Memory for logits grows with it
            (340 MB from 512 to 2048 with a vocabulary of 49,152).
        cache_prompt: keep a slot's prompt, so that the next one with the same beginning computes only its end.
        prompt_cache_mib: MiB of memory beyond the slots in which prompts are kept (256; llama.cpp's own 8192 would
            surprise a small machine). 0: none.
        flash_attention: ``"auto"``, ``"enabled"`` or ``"disabled"`` (auto: where the hardware has it).
        speculation: which drafter speculates. Its weights are a GGUF file (``outrider drafter export`` makes one),
            which itself says how it is quantised. None: no speculation, since with a quantised model on a CPU
            verifying 8 tokens costs six times one.
        shared_prefix: the longest text that requests begin with (a system prompt). It is sent once while warming up, so
            that the first user's request finds it in a slot. None: none.
        warm_up: payloads ``{"path", "body"}`` that must have worked once; None: text, JSON schema, an embedding with
            ``embeddings``, and ``shared_prefix``. No tool call: whether a GGUF's chat template knows tools shows only
            in what the model answers.
        extra: further parameters of llama.cpp by its own names, see :mod:`outrider.engines.llamacpp_flags`.

    Raises:
        InvalidInput: a value that cannot be, or an unknown name in ``extra``.
    """

    name = "llamacpp"
    title = "llama.cpp"

    def __init__(
        self,
        weights: Weights,
        environment: EngineEnvironment | None = None,
        *,
        threads: int = 1,
        slots: int = 4,
        context: int | None = None,
        embeddings: bool = False,
        batch_size: int = 2048,
        micro_batch_size: int | None = None,
        cache_prompt: bool = True,
        prompt_cache_mib: int = 256,
        flash_attention: str = "auto",
        speculation: Speculation | None = None,
        shared_prefix: str | None = None,
        warm_up: Sequence[Mapping[str, Any]] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.weights = weights
        self.environment = environment
        self.threads = _at_least(1, threads=threads)
        self.slots = _at_least(1, slots=slots)
        self.context = None if context is None else _at_least(8, context=context)
        self.embeddings = embeddings
        self.batch_size = _at_least(1, batch_size=batch_size)
        whole = min(context or batch_size, batch_size) if embeddings else min(512, batch_size)
        self.micro_batch_size = _at_least(1, micro_batch_size=whole if micro_batch_size is None else micro_batch_size)
        self.cache_prompt = cache_prompt
        self.prompt_cache_mib = _at_least(0, prompt_cache_mib=prompt_cache_mib)
        self.flash_attention = flash_attention
        self.speculation = checked_speculation(self.title, speculation)
        usual = warmup.default_payloads(embeddings=embeddings, shared_prefix=shared_prefix)
        self.payloads = usual if warm_up is None else warmup.check_payloads(warm_up)
        self.extra = dict(extra or {})
        self._encoded = encoded(self.extra)
        self._flash = member(FLASH_ATTENTION, flash_attention, name="flash_attention")
        self._speculation = parameters(self.speculation, self.threads, self.extra)
        self._file: Path | None = None
        self._drafter: Path | None = None

    def version(self) -> str | None:
        """Version of ``xllamacpp`` in the environment; None: not installed there."""
        done = self._ask(f"from importlib.metadata import version; print(version({_PACKAGE!r}))")
        return done.stdout.strip() if done is not None and done.returncode == 0 else None

    def describe(self) -> dict[str, Any]:
        """Name and flags, JSON-serialisable."""
        flags = ("threads", "slots", "context", "embeddings", "batch_size", "micro_batch_size")
        more = ("cache_prompt", "prompt_cache_mib", "flash_attention")
        drafting = {"speculation": self.speculation.describe()} if self.speculation.method != "off" else {}
        given = {flag: getattr(self, flag) for flag in flags + more}
        return {"name": self.name, "flags": {**given, **drafting, **self.extra}}

    def prepare(self, report: Report) -> None:
        """Environment, engine package, weights, drafter; in this order: what is quick to refuse is refused first.

        Raises:
            EngineMissing: no ``xllamacpp`` in the environment's Python. DrafterUnfit: the drafter is no GGUF file.
            What weights and environment raise.
        """
        if self.environment is not None:
            self.environment.prepare(report)
        report(Progress("checking the engine"))
        self._require_engine()
        self._file = self.weights.prepare(report)
        if self.speculation.drafter is not None:
            self._drafter = drafter_file(self.speculation.drafter.prepare(report))

    def start(self, launch: Launch) -> None:
        """Start the child. Its key travels in a 0600 file, never on the command line.

        Raises:
            ReplicaFailed: the interpreter cannot be run.
        """
        config = launch.scratch / "llamacpp.json"
        descriptor = os.open(config, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, 0o600)
            json.dump({"params": self.parameters(launch)}, file)
        argv = [str(self._interpreter), str(_SCRIPT), str(config)]
        self._begin(argv, env=self._variables(launch.env), launch=launch)

    def parameters(self, launch: Launch) -> dict[str, Any]:
        """llama.cpp's parameters by their own names, as the child reads them."""
        params: dict[str, Any] = {
            "model.path": str(self._file),
            "model_alias": [launch.name],
            "hostnames": [launch.host],
            "port": launch.port,
            "api_keys": [launch.key],
            "cpuparams.n_threads": self.threads,
            "cpuparams_batch.n_threads": self.threads,
            "n_parallel": self.slots,
            # llama.cpp divides its context among the slots; 0 is the model's own, which they then share.
            "n_ctx": (self.context or 0) * self.slots,
            "kv_unified": self.context is None,
            "n_batch": self.batch_size,
            "n_ubatch": self.micro_batch_size,
            "cache_prompt": self.cache_prompt,
            "cache_ram_mib": self.prompt_cache_mib,
            "flash_attn_type": self._flash,
            # Nothing is resized behind the plan's back.
            "fit_params": False,
            "endpoint_metrics": True,
            "ui": False,
            # Warnings and errors; llama.cpp's informative lines come for each request. With embeddings even its
            # warnings do.
            "verbosity": 1 if self.embeddings else 2,
        }
        if self.embeddings:
            params |= {"embedding": True, "pooling_type": member(POOLING, "mean", name="pooling_type")}
        if self._drafter is not None:
            params["speculative.draft.mparams.path"] = str(self._drafter)
        return params | self._speculation | self._encoded

    @property
    def _interpreter(self) -> Path:
        return self.environment.interpreter if self.environment else Path(sys.executable)

    def _variables(self, more: Mapping[str, str]) -> dict[str, str]:
        return engine_variables(os.environ, self.environment.env if self.environment else {}, more)

    def _ask(self, code: str) -> subprocess.CompletedProcess[str] | None:
        try:
            return subprocess.run(
                [str(self._interpreter), "-c", code],
                check=False,
                capture_output=True,
                text=True,
                env=self._variables({}),
            )
        except OSError:
            return None

    def _require_engine(self) -> None:
        done = self._ask(f"import {_PACKAGE}")
        if done is not None and done.returncode == 0:
            return
        lines = done.stderr.strip().splitlines() if done is not None else [f"no Python at {self._interpreter}"]
        raise EngineMissing(
            "llama.cpp is not installed",
            why=f"{self._interpreter} cannot import {_PACKAGE}: {lines[-1] if lines else 'it gave no reason'}",
            remedy="Install it with: pip install 'outrider[cpu]'",
        )

    def _ended(self, code: int, log: list[str], address: EngineAddress) -> PortTaken | ReplicaFailed:
        return port_taken(address) if code == PORT_TAKEN else super()._ended(code, log, address)


def _at_least(least: int, **named: int) -> int:
    ((name, value),) = named.items()
    if type(value) is not int or value < least:
        raise InvalidInput(
            f"LlamaCpp({name}={value!r})", why=f"{name} is a whole number, {least} or more", remedy="Correct it."
        )
    return value
