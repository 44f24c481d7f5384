"""The table of GPUs: every row whole and sourced, and drivers' names find the right one."""

from __future__ import annotations

import pytest

from outrider.recipes.gpus import GpuFacts, cpu, gpu_facts, gpus


@pytest.mark.parametrize("row", gpus(), ids=lambda row: row.name)
def test_every_row_has_a_source_and_rates_that_rise(row: GpuFacts) -> None:
    assert gpu_facts(row.name) == row
    assert "https://" in row.source
    rates = [rate for rate in (row.bf16, row.fp8, row.fp4) if rate]
    assert rates == sorted(rates) and rates[0] > 1e13
    assert 1e10 < row.memory_bytes < 1e12 and 1e11 < row.bandwidth < 1e13


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("RTX-4090", "RTX 4090"),
        ("rtx4090", "RTX 4090"),
        ("H100PCIe", "H100 PCIe"),
        ("h200", "H200"),
        ("GB300", "B300"),
    ],
)
def test_a_drivers_name_finds_its_kind(driver: str, name: str) -> None:
    found = gpu_facts(driver)
    assert found is not None and found.name == name


@pytest.mark.parametrize("unknown", ["NVIDIA GH200 480GB", "Tesla T4", "L40", "H1000", ""])
def test_a_name_that_only_looks_alike_is_not_taken(unknown: str) -> None:
    assert gpu_facts(unknown) is None


def test_a_core_is_known() -> None:
    row = cpu()
    assert row.bandwidth_per_core <= row.bandwidth_most and row.source and row.price_source
