"""GPUs through NVML: the answers of a real H200 played back, its faults, and what the real library says here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from outrider.placement import nvidia
from outrider.spec.inventory import Gpu


class NVMLError(Exception):
    """As pynvml's: its subclasses name what failed."""


class NVMLError_LibraryNotFound(NVMLError):
    """libnvidia-ml.so.1 is not there."""


class NVMLError_DriverNotLoaded(NVMLError):
    """The library is, the kernel module is not."""


@dataclass
class Driver:
    """What nvidia-ml-py answers on a machine with one H200 (driver 580.159.04); tests change it."""

    NVMLError = NVMLError
    init: Exception | None = None
    memory: list[int | Exception] = field(default_factory=lambda: [150754820096])
    open: int = 0

    def nvmlInit(self) -> None:
        if self.init is not None:
            raise self.init
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.159.04"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 13000

    def nvmlDeviceGetCount(self) -> int:
        return len(self.memory)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        answer = self.memory[handle]
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(total=answer)


def _bus(tmp_path: Path, *devices: tuple[str, str]) -> Path:
    for number, (vendor, kind) in enumerate(devices):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "vendor").write_text(f"{vendor}\n")
        (tmp_path / str(number) / "class").write_text(f"{kind}\n")
    return tmp_path


def test_an_h200(tmp_path: Path) -> None:
    driver = Driver()
    bus = _bus(tmp_path, ("0x10de", "0x030200"), ("0x1af4", "0x020000"), ("0x10de", "0x040300"))
    found = nvidia.look(driver, bus)
    assert found.gpus == (Gpu(name="NVIDIA H200", memory_bytes=150754820096),)
    assert (found.driver, found.cuda, found.absence) == ("580.159.04", "13.0", None)
    assert found.on_bus == 1, "its sound device is no GPU"
    assert driver.open == 0


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NVMLError_LibraryNotFound(), "libnvidia-ml.so.1"),
        (NVMLError_DriverNotLoaded(), "not loaded"),
        (NVMLError("Driver/library version mismatch"), "version mismatch"),
    ],
)
def test_no_driver_is_an_answer(tmp_path: Path, error: NVMLError, words: str) -> None:
    found = nvidia.look(Driver(init=error), _bus(tmp_path, ("0x10de", "0x030000")))
    assert found.gpus == () and found.on_bus == 1
    assert words in (found.absence or "")


def test_a_gpu_that_fell_off_the_bus_leaves_the_others(tmp_path: Path) -> None:
    driver = Driver(memory=[1, NVMLError("GPU is lost"), 3])
    found = nvidia.look(driver, tmp_path)
    assert [gpu.memory_bytes for gpu in found.gpus] == [1, 3]
    assert found.silent == ("GPU 1: GPU is lost",)
    assert found.absence is None and driver.open == 0


def test_a_driver_without_gpus(tmp_path: Path) -> None:
    assert "sees no GPU" in (nvidia.look(Driver(memory=[]), tmp_path).absence or "")


def test_the_real_library_answers_or_says_why_not() -> None:
    found = nvidia.look()
    if Path("/dev/nvidiactl").exists():
        assert found.gpus or found.silent
        assert found.driver and found.cuda
    else:
        assert found.gpus == () and found.driver is None
        assert "driver" in (found.absence or "")
