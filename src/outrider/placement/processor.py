"""The processor: its cores, and what its kernel says of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from outrider.placement.machine import Processor

_SMT = Path("/sys/devices/system/cpu/smt/active")


def look(quota: float | None) -> Processor:
    """Look at it; ``quota`` is what the cgroup allows, in cores."""
    info = cpuinfo()
    return Processor(
        count=os.cpu_count() or 1,
        usable=len(os.sched_getaffinity(0)),
        quota=quota,
        smt=_smt(),
        model=info.get("model name", "unknown"),
        architecture=platform.machine(),
        flags=frozenset((info.get("flags") or info.get("Features") or "").split()),
    )


def cpuinfo() -> Mapping[str, str]:
    """The first core's fields of ``/proc/cpuinfo`` (``model name``; ``flags`` on x86, ``Features`` on ARM)."""
    first = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def _smt() -> bool | None:
    try:
        return _SMT.read_text().strip() == "1"
    except OSError:
        return None
