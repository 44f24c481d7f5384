"""What this machine is: the inventory that plans are made on."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from outrider.placement import cgroup, nvidia
from outrider.spec.home import Home
from outrider.spec.inventory import Inventory

_ENGINES = {"llamacpp": "xllamacpp", "vllm": "vllm", "sglang": "sglang"}


def discover(home: Home) -> Inventory:
    """Look at this machine: cores and memory this process may use, free disk under the cache, GPUs, engines in this
    Python. Changes nothing; a machine without GPUs has none, and that is all.
    """
    memory = psutil.virtual_memory().total
    return Inventory(
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=min(memory, cgroup.limits().memory_bytes or memory),
        disk_free_bytes=psutil.disk_usage(str(_existing(home.cache))).free,
        gpus=nvidia.look().gpus,
        engines={engine: _installed(package) for engine, package in _ENGINES.items()},
        cpu_model=_cpu_model(),
        quota_enforced=cgroup.obstacle() is None,
        placement="local",
    )


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _existing(path: Path) -> Path:
    return next(candidate for candidate in (path, *path.parents) if candidate.exists())


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown"
