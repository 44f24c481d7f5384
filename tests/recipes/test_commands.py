from __future__ import annotations

import re

import pytest

from outrider.engines.sglang import SGLang
from outrider.engines.vllm import VLLM
from outrider.recipes.commands import OPTIONS, Drafting, read_command


@pytest.mark.parametrize("cls", [VLLM, SGLang])
def test_every_flag_that_an_argument_sets_is_read_as_that_argument(cls: type[VLLM] | type[SGLang]) -> None:
    used = {flag: re.fullmatch(r"Use (\w+)=\.", how) for flag, how in cls.taken.items()}
    expected = {flag: found[1] for flag, found in used.items() if found and found[1] not in ("speculation", "adapters")}
    special = {"enable_auto_tool_choice", "disable_radix_cache", "tp_size"}
    special |= {"disable_cuda_graph", "disable_prefill_cuda_graph", "disable_decode_cuda_graph"}
    assert {flag: argument for flag, argument in expected.items() if flag not in special} == dict(OPTIONS[cls.name])


def test_a_vllm_command() -> None:
    found = read_command(
        "vllm",
        [
            "Qwen/Qwen3.6-27B-FP8",
            "--trust-remote-code",
            "-tp",
            "2",
            "--enable-auto-tool-choice",
            "--tool-call-parser=qwen3_coder",
            "--gpu-memory-utilization",
            "0.95",
            "--no-enable-prefix-caching",
            "--async-scheduling",
            "--kernel-config.enable_flashinfer_autotune=False",
            "--speculative-config",
            '{"method":"mtp","num_speculative_tokens":3,"moe_backend":"triton"}',
            "--host",
            "0.0.0.0",
        ],
    )
    assert found.model == "Qwen/Qwen3.6-27B-FP8"
    assert found.flags == {
        "trust_remote_code": True,
        "gpus": 2,
        "tool_call_parser": "qwen3_coder",
        "memory_share": 0.95,
        "cache_prompt": False,
        "async_scheduling": True,
        "kernel_config": '{"enable_flashinfer_autotune": false}',
    }
    assert found.drafting == Drafting("mtp", None, 3)
    assert found.unknown == []


def test_an_sglang_command_written_a_flag_a_line() -> None:
    found = read_command(
        "sglang",
        [
            "--model-path zai-org/GLM-5.2-FP8",
            "--tp 8",
            "--dp 8",
            "--enable-dp-attention",
            "--speculative-algorithm EAGLE",
            "--speculative-num-steps 5",
            "--speculative-eagle-topk 1",
            "--speculative-num-draft-tokens 6",
            "--mem-fraction-static 0.8",
            "--disable-radix-cache",
        ],
    )
    assert found.model == "zai-org/GLM-5.2-FP8"
    assert found.flags == {
        "gpus": 8,
        "dp_size": 8,
        "enable_dp_attention": True,
        "memory_share": 0.8,
        "cache_prompt": False,
    }
    assert found.drafting == Drafting("mtp", None, 5)


@pytest.mark.parametrize(
    ("engine", "words", "unknown"),
    [
        ("vllm", ["m", "--no-such-flag", "1"], "--no-such-flag 1"),
        ("vllm", ["m", "--max-model-len", "long"], "--max-model-len long"),
        ("vllm", ["m", "--max-model-len"], "--max-model-len"),
        ("vllm", ["m", "--async-scheduling", "yes"], "--async-scheduling yes"),
        ("vllm", ["m", "--speculative-config", "{"], "--speculative-config {"),
        ("vllm", ["m", "--speculative-config", '{"method":"new"}'], '--speculative-config {"method":"new"}'),
        ("sglang", ["--speculative-algorithm", "EAGLE3", "--speculative-eagle-topk", "4"], "--speculative-algorithm"),
        ("sglang", ["--disable-decode-cuda-graph"], "--disable-decode-cuda-graph"),
        ("sglang", ["--speculative-algorithm", "EAGLE", "--speculative-draft-model-path", "a/b"], "EAGLE"),
    ],
)
def test_what_is_not_understood_is_named_and_left_out(engine: str, words: list[str], unknown: str) -> None:
    found = read_command(engine, words)
    assert found.flags == {}
    assert found.drafting is None
    (named,) = found.unknown
    assert unknown in named
