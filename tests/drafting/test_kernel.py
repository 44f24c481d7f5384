"""The fused kernel equals torch, and both equal the layers one by one."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch

from outrider.drafting import kernel
from outrider.drafting.rotary import Rotary, norm_rotate

from . import tiny

triton = pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import triton"], capture_output=True).returncode != 0,
    reason="Triton is not installed",
)


def given(batch: int = 2, length: int = 21, layers: int = 3, heads: int = 2, width: int = 8) -> tuple[Any, ...]:
    """Projected rows, gains, epsilon, cosines and sines."""
    generator = torch.Generator().manual_seed(0)
    projected = torch.randn(batch, length, layers, 2, heads, width, generator=generator)
    gains = 1 + 0.3 * torch.randn(layers, width, generator=generator)
    positions = torch.randint(500, (batch, length), generator=generator)
    return (projected, gains, 1e-6, *Rotary(tiny.config(head_dim=width))(positions))


def test_all_layers_at_once_equal_one_by_one() -> None:
    projected, gains, eps, cos, sin = given()
    keys, values = kernel.split_context(projected, gains, eps, cos, sin)
    assert keys.shape == values.shape == (3, 2, 2, 21, 8)
    for layer in range(3):
        one, other = (part.transpose(1, 2) for part in projected[:, :, layer].unbind(2))
        turned = norm_rotate(one, gains[layer], eps, cos[:, None], sin[:, None])
        torch.testing.assert_close(keys[layer], turned)
        assert torch.equal(values[layer], other)


def test_a_gradient_goes_by_torch() -> None:
    projected, *rest = given()
    projected.requires_grad_()
    assert not kernel.available(projected)
    keys, values = kernel.split_context(projected, *rest)
    (keys.sum() + values.sum()).backward()
    assert projected.grad is not None and projected.grad.abs().min() >= 0


def test_the_benchmark_runs() -> None:
    """On the CPU, with tiny shapes; it checks by itself that the three ways agree."""
    script = [sys.executable, "benchmarks/drafter/kernel.py", "--device", "cpu"]
    ran = subprocess.run(script, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    assert [line.split()[4] for line in ran.stdout.splitlines()] == ["layers", "torch", "fused"]


CHECK = """
import torch
from outrider.drafting import kernel
from tests.drafting.test_kernel import given
for shape in ({}, {"length": 1}, {"batch": 1, "length": 0}, {"heads": 1, "width": 12}, {"layers": 1, "length": 16}):
    arguments = given(**shape)
    assert kernel.available(arguments[0])
    for fused, plain in zip(kernel.fused(*arguments), kernel.plain(*arguments), strict=True):
        torch.testing.assert_close(fused, plain)
"""


@triton
def test_the_kernel_equals_torch_in_the_interpreter() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1"}  # Triton reads it when it is imported
    ran = subprocess.run([sys.executable, "-c", CHECK], env=environment, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_equals_torch_on_cuda(dtype: torch.dtype) -> None:
    projected, gains, eps, cos, sin = given(width=64, length=130)
    arguments = (projected.to("cuda", dtype), gains.to("cuda", dtype), eps, cos.cuda(), sin.cuda())
    for fused, plain in zip(kernel.fused(*arguments), kernel.plain(*arguments), strict=True):
        torch.testing.assert_close(fused, plain, atol=1e-5 if dtype == torch.float32 else 2e-2, rtol=1e-2)
