"""Precisions by name: how many bits a weight takes, and which of a GPU's rates it computes at."""

from __future__ import annotations

from typing import Literal

Rate = Literal["bf16", "fp8", "fp4"]

_BITS = {
    "f32": 32.0, "fp32": 32.0, "float32": 32.0,
    "bf16": 16.0, "bfloat16": 16.0, "f16": 16.0, "fp16": 16.0, "float16": 16.0,
    "fp8": 8.0, "fp8_e4m3": 8.0, "int8": 8.0, "w8a8": 8.0, "q8_0": 8.5,
    "nvfp4": 5.0, "int4": 4.75, "awq": 4.75, "gptq": 4.75, "w4a16": 4.75, "mxfp4": 4.5,
    "q6_k": 6.56, "q5_1": 6.0, "q5_0": 5.5, "q5_k_m": 5.7, "q4_1": 5.0, "q4_k_m": 4.85, "q4_0": 4.5,
}  # fmt: skip
"""Bits a weight, averaged over a file: scales, and with four bits what stays in 16, are in it. vLLM counts 5 for
NVFP4; moonshotai/Kimi-K2.6 (1.03 T parameters in 594 GB) and openai/gpt-oss-120b (117 G in 65 GB) give the
others."""


def bits(precision: str) -> float | None:
    """Bits a weight. None: a precision not known here."""
    return _BITS.get(precision.lower())


def rate(precision: str) -> Rate:
    """The rate a GPU computes at with such weights; those of four bits and no units for them are widened to bf16."""
    name = precision.lower()
    if name in ("fp8", "fp8_e4m3", "int8", "w8a8"):
        return "fp8"
    return "fp4" if name in ("nvfp4", "mxfp4") else "bf16"


def smaller(precision: str) -> tuple[str, ...]:
    """Precisions that engines on GPUs take and that need fewer bits, from the most bits to the fewest."""
    now = bits(precision)
    return tuple(name for name in ("fp8", "nvfp4") if now is not None and _BITS[name] < now)
