"""What this machine is: the inventory that plans are made on."""

from __future__ import annotations

import contextlib
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from outrider.engines.builds import builds, packages
from outrider.placement import cgroup, nvidia
from outrider.placement.processor import cpuinfo
from outrider.spec.home import Home
from outrider.spec.inventory import Inventory


def discover(home: Home) -> Inventory:
    """Look at this machine: cores and memory this process may use, free disk under the cache, GPUs, engines in this
    Python. Changes nothing; a machine without GPUs has none, and that is all.
    """
    memory = psutil.virtual_memory().total
    return Inventory(
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=min(memory, cgroup.limits().memory_bytes or memory),
        disk_free_bytes=psutil.disk_usage(str(nearest_existing(home.cache))).free,
        gpus=nvidia.look().gpus,
        engines={engine: _installed(engine) for engine in {build.engine for build in builds()}},
        cpu_model=cpuinfo().get("model name", "unknown"),
        quota_enforced=cgroup.obstacle() is None,
        placement="local",
    )


def nearest_existing(path: Path) -> Path:
    """The path, or its nearest parent that exists and may be seen."""
    return next(candidate for candidate in (path, *path.parents) if _seen(candidate))


def _seen(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # below a directory that this user may not enter
        return False


def _installed(engine: str) -> str | None:
    for package in packages(engine):
        with contextlib.suppress(PackageNotFoundError):
            return version(package)
    return None
