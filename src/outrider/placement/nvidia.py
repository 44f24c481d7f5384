"""NVIDIA GPUs of this machine, asked of their driver through NVML. No driver is a normal answer, never an error."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from outrider.spec.inventory import Gpu

_PCI = Path("/sys/bus/pci/devices")
_VENDOR, _DISPLAY = "0x10de", "0x03"
"""NVIDIA's PCI vendor id, and the first byte of the class of display controllers (3-D ones included)."""


class Nvml(Protocol):
    """What is used of the module ``pynvml`` (package nvidia-ml-py, NVIDIA's own)."""

    @property
    def NVMLError(self) -> type[Exception]:
        """What every call may raise."""
        ...

    def nvmlInit(self) -> None:
        """Load the driver's library. Raises NVMLError."""
        ...

    def nvmlShutdown(self) -> None:
        """Let it go."""
        ...

    def nvmlSystemGetDriverVersion(self) -> str:
        """As ``580.159.04``."""
        ...

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        """Newest CUDA that the driver runs, 1000 × major + 10 × minor."""
        ...

    def nvmlDeviceGetCount(self) -> int:
        """GPUs that the driver sees."""
        ...

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Any:
        """One GPU. Raises NVMLError, as where it fell off the bus."""
        ...

    def nvmlDeviceGetName(self, handle: Any) -> str:
        """As ``NVIDIA H200``."""
        ...

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Any:
        """An object with ``total``, bytes."""
        ...


@dataclass(frozen=True, slots=True)
class Nvidia:
    """What the driver says.

    Attributes:
        gpus: those that answer. All the driver sees: ``CUDA_VISIBLE_DEVICES`` is the engines' business.
        driver: its version, or None.
        cuda: newest CUDA that it runs, as ``13.0``, or None.
        absence: why there are no GPUs, in words; None where there are some.
        silent: one line a GPU that is there and does not answer.
        on_bus: NVIDIA GPUs on the PCI bus, whether or not a driver runs them.
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda: str | None = None
    absence: str | None = None
    silent: tuple[str, ...] = ()
    on_bus: int = 0


def look(nvml: Nvml | None = None, pci: Path = _PCI) -> Nvidia:
    """Ask the driver; ``nvml`` None: the real one."""
    library = _library() if nvml is None else nvml
    on_bus = _on_bus(pci)
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        return Nvidia(absence=_absence(error), on_bus=on_bus)
    try:
        return _ask(library, on_bus)
    except library.NVMLError as error:
        return Nvidia(absence=f"the NVIDIA driver answers: {error}", on_bus=on_bus)
    finally:
        with contextlib.suppress(library.NVMLError):
            library.nvmlShutdown()


def _library() -> Nvml:
    import pynvml

    library: Nvml = pynvml
    return library


def _ask(library: Nvml, on_bus: int) -> Nvidia:
    cuda = library.nvmlSystemGetCudaDriverVersion()
    gpus: list[Gpu] = []
    silent: list[str] = []
    for index in range(library.nvmlDeviceGetCount()):
        try:
            handle = library.nvmlDeviceGetHandleByIndex(index)
            memory = int(library.nvmlDeviceGetMemoryInfo(handle).total)
            gpus.append(Gpu(name=library.nvmlDeviceGetName(handle), memory_bytes=memory))
        except library.NVMLError as error:
            silent.append(f"GPU {index}: {error}")
    return Nvidia(
        gpus=tuple(gpus),
        driver=library.nvmlSystemGetDriverVersion(),
        cuda=f"{cuda // 1000}.{cuda % 1000 // 10}",
        absence=None if gpus or silent else "the NVIDIA driver runs and sees no GPU",
        silent=tuple(silent),
        on_bus=on_bus,
    )


def _absence(error: Exception) -> str:
    words = {
        "NVMLError_LibraryNotFound": "no NVIDIA driver: its library libnvidia-ml.so.1 is not on this machine",
        "NVMLError_DriverNotLoaded": "the NVIDIA driver is installed but not loaded",
        "NVMLError_NoPermission": "this user may not talk to the NVIDIA driver",
    }
    return words.get(type(error).__name__, f"the NVIDIA driver does not start: {error}")


def _on_bus(pci: Path) -> int:
    count = 0
    for device in pci.iterdir() if pci.is_dir() else ():
        with contextlib.suppress(OSError):
            nvidia = (device / "vendor").read_text().strip() == _VENDOR
            count += nvidia and (device / "class").read_text().startswith(_DISPLAY)
    return count
