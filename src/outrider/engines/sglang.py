"""SGLang: its own server in an environment of its own, NVIDIA GPUs only.

Versions whose flags are known are in ``sglang_flags.yaml``. Source: https://docs.sglang.io.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from outrider.app.server import Launch, Weights
from outrider.engines import warmup
from outrider.engines.base import Adapter, EngineEnvironment
from outrider.engines.flags import flags
from outrider.engines.python_engine import OVER_TLS, PythonEngine, at_least, share
from outrider.engines.speculation import Speculation, checked_speculation

_SCRIPT = Path(__file__).with_name("sglang_serve.py")
_FLAGS = {
    "dtype": "dtype",
    "quantization": "quantization",
    "context": "context_length",
    "slots": "max_running_requests",
    "batch_size": "chunked_prefill_size",
    "gpus": "tensor_parallel_size",
    "memory_share": "mem_fraction_static",
    "kv_cache_type": "kv_cache_dtype",
    "tool_call_parser": "tool_call_parser",
    "reasoning_parser": "reasoning_parser",
    "chat_template": "chat_template",
}
"""Option → flag by the name in ``extra``; the other options are not one flag."""
_ALGORITHMS = {"dflash": "DFLASH", "eagle3": "EAGLE3", "mtp": "NEXTN", "ngram": "NGRAM", "draft": "STANDALONE"}
_UNQUANTISED = "unquant"
_ADAPTERS_AT_ONCE = 8
"""Adapters that one batch may mix, beside the base, which SGLang counts among them."""


class SGLang(PythonEngine):
    """An SGLang server for one model.

    Args:
        weights: the model's directory (``config.json``, safetensors, tokenizer).
        environment: the Python that has ``sglang``; always one of its own.
        dtype: of weights and activations: ``"auto"`` (as the checkpoint says), ``"bfloat16"``, ….
        quantization: how the weights are quantised; None: as the checkpoint says.
        context: tokens that a request may hold, prompt and answer. None: all the model was trained for.
        slots: requests decoded at once; further ones wait. None: SGLang's own, which with speculation is 48 whatever
            the GPU, so set it.
        batch_size: tokens of a prompt computed in one step (chunked prefill). None: SGLang's own, by the GPU's memory.
        gpus: GPUs that share every layer (tensor parallelism, 1).
        memory_share: share of each GPU's memory for weights and KV cache, drafter's included; activations and graphs
            live in the rest. None: SGLang's own, by GPU and flags. Lower it where graphs run out of memory.
        kv_cache_type: ``"auto"`` (as the model), ``"fp8_e4m3"``, ….
        cuda_graphs: capture CUDA graphs (True; False starts sooner and decodes slower).
        cache_prompt: keep the KV of finished requests in the radix cache (True, SGLang's own).
        tool_call_parser: reads tool calls out of answers, by model family. None: they stay text.
        reasoning_parser: separates reasoning from the answer. None: it stays in the answer.
        chat_template: name or file of a template that replaces the model's own. None: the model's own.
        trust_remote_code: run Python that comes with the weights (False, since it can do anything).
        speculation: which drafter speculates; None: none.
        adapters: LoRA adapters by name, ``outrider.Adapter(…)`` each; a request for ``ENDPOINT:NAME`` is answered with
            one. None: none.
        sleep: the engine can give its memory back (:meth:`sleep`) while it stays loaded (False: it costs some speed).
        shared_prefix: the longest text that requests begin with; sent once while warming up. None: none.
        warm_up: payloads ``{"path", "body"}`` that must have worked once; None: text and, but for DFlash, beside which
            versions before 0.5.23 take no grammar, JSON schema, a tool call where
            ``tool_call_parser`` is set, and ``shared_prefix``.
        extra: further flags by name (``{"attention_backend": "fa3"}``), checked by type, and by version once the
            environment stands.
        arguments: further words of the command line, unchecked: for flags newer than this Outrider.

    Raises:
        InvalidInput: a value that cannot be, or an unknown name in ``extra``.
    """

    name = "sglang"
    title = "SGLang"
    packages = ("sglang",)
    taken = (
        {flag: f"Use {option}=." for option, flag in _FLAGS.items()}
        | dict.fromkeys(
            ("served_model_name", "host", "port", "api_key", "model", "model_path", "config", "enable_metrics"),
            "Leave it out.",
        )
        | dict.fromkeys(("ssl_keyfile", "ssl_certfile"), OVER_TLS)
        | {
            "tp_size": "Use gpus=.",
            "speculative_algorithm": "Use speculation=.",
            "speculative_draft_model_path": "Use speculation=.",
            "speculative_draft_model": "Use speculation=.",
            "speculative_draft_model_quantization": "Use speculation=.",
            "speculative_num_draft_tokens": "Use speculation=.",
            "speculative_dflash_block_size": "Use speculation=.",
            "enable_lora": "Use adapters=.",
            "lora_paths": "Use adapters=.",
            "disable_radix_cache": "Use cache_prompt=.",
            "trust_remote_code": "Use trust_remote_code=.",
            "enable_memory_saver": "Use sleep=.",
            "disable_decode_cuda_graph": "Use cuda_graphs=.",
            "disable_prefill_cuda_graph": "Use cuda_graphs=.",
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
        cuda_graphs: bool = True,
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
        at_least("SGLang", 1, context=context, slots=slots, batch_size=batch_size, gpus=gpus)
        share("SGLang", memory_share=memory_share)
        options = {key: value for key, value in locals().items() if key in (*_FLAGS, *_SWITCHES)}
        usual = warmup.default_payloads(tools=tool_call_parser is not None, shared_prefix=shared_prefix)
        if checked_speculation(self.title, speculation).method == "dflash":
            usual = warmup.without_grammar(usual)
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

    def start(self, launch: Launch) -> None:
        """Start the child. Its key travels in a 0600 file that SGLang reads as its configuration."""
        descriptor = os.open(_key_file(launch), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(descriptor, 0o600)
            json.dump({"api-key": launch.key}, file)  # JSON is YAML
        super().start(launch)

    def command(self, launch: Launch) -> list[str]:
        """``sglang_serve.py KEY_FILE FLAG…``: SGLang's own server, with the key kept out of its log."""
        option = self.options
        values: dict[str, Any] = {
            "model_path": self.weights_path,
            "served_model_name": launch.name,
            "host": launch.host,
            "port": launch.port,
            "enable_metrics": True,
            **{flag: option[name] for name, flag in _FLAGS.items()},
            "disable_radix_cache": not option["cache_prompt"],
            "disable_decode_cuda_graph": not option["cuda_graphs"],
            "disable_prefill_cuda_graph": not option["cuda_graphs"],
            "trust_remote_code": option["trust_remote_code"],
            "enable_memory_saver": option["sleep"],
            **self._speculative_flags(),
            **self._adapter_flags(),
            **self.extra,
        }
        words = [str(_SCRIPT), str(_key_file(launch)), *flags(self.name).argv(values)]
        # One JSON object an adapter, whatever may stand in its path: SGLang's help has the schema.
        named = [json.dumps({"lora_name": name, "lora_path": path}) for name, path in self.adapter_paths.items()]
        return [*words, "--lora-paths", *named] if named else words

    def variables(self, launch: Launch) -> dict[str, str]:
        """No download behind the plan's back."""
        return {"HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}

    def sleep(self, *, timeout: float = 60.0) -> None:
        """Give the memory of weights and KV cache back; requests wait outside. Needs ``sleep=True``.

        Raises:
            ReplicaFailed: it does not answer, or cannot sleep.
        """
        self._liveness.end()
        self.ask("/release_memory_occupation", {}, timeout=timeout)

    def wake(self, *, timeout: float = 60.0) -> None:
        """Undo :meth:`sleep`; prompts are computed anew. Raises ReplicaFailed."""
        self.ask("/resume_memory_occupation", {}, timeout=timeout)
        self._liveness.begin()

    def _adapter_flags(self) -> dict[str, Any]:
        """Adapters by their own names: SGLang itself reads ``ENDPOINT:NAME`` in a request's ``model`` as one."""
        if not self.adapters:
            return {}
        return {
            "enable_lora": True,
            "max_lora_rank": self.adapter_rank,
            "max_loras_per_batch": min(len(self.adapters), _ADAPTERS_AT_ONCE) + 1,
        }

    def _speculative_flags(self) -> dict[str, Any]:
        """SGLang counts the bonus token among the draft tokens (and in a block); the drafter's quantisation is said."""
        chosen = self.speculation
        if chosen.method == "off":
            return {}
        found: dict[str, Any] = {"speculative_algorithm": _ALGORITHMS[chosen.method]}
        if chosen.drafter is not None:
            found["speculative_draft_model_path"] = self.drafter_path
            found["speculative_draft_model_quantization"] = chosen.quantised or _UNQUANTISED
        if chosen.method == "dflash":
            return found | {"speculative_dflash_block_size": chosen.tokens + 1}
        if chosen.method != "ngram":
            found |= {"speculative_num_steps": chosen.tokens, "speculative_eagle_topk": 1}
        return found | {"speculative_num_draft_tokens": chosen.tokens + 1}


_SWITCHES = ("cuda_graphs", "cache_prompt", "trust_remote_code", "sleep")


def _key_file(launch: Launch) -> Path:
    return launch.scratch / "sglang.yaml"
