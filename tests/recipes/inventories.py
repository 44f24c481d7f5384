"""Machines to plan on, as their drivers name and size them."""

from __future__ import annotations

from outrider.spec.inventory import Gpu, Inventory

MIB = 2**20


def machine(gpu: str = "", mib: int = 0, count: int = 0, *, memory_gib: int = 512, cores: int = 32) -> Inventory:
    """A machine with ``count`` GPUs of ``mib`` MiB each."""
    gpus = tuple(Gpu(name=gpu, memory_bytes=mib * MIB) for _ in range(count))
    return Inventory(cores=cores, memory_bytes=memory_gib * 2**30, disk_free_bytes=2**42, gpus=gpus)


INVENTORIES = {
    "1×H100": machine("NVIDIA H100 80GB HBM3", 81_559, 1),
    "1×H200": machine("NVIDIA H200", 143_771, 1),
    "8×H200": machine("NVIDIA H200", 143_771, 8),
    "8×B200": machine("NVIDIA B200", 183_359, 8),
    "4×L40S": machine("NVIDIA L40S", 46_068, 4),
    "1×RTX 4090": machine("NVIDIA GeForce RTX 4090", 24_564, 1),
    "CPU": machine(memory_gib=64, cores=8),
    "none": Inventory(cores=1, memory_bytes=0, disk_free_bytes=0),
}
"""The eight that every model of the catalog is planned on."""
