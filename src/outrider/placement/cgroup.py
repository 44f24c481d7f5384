"""CPU quotas by cgroup (v2 or v1), where one is writable (decision 20)."""

from __future__ import annotations

import contextlib
from pathlib import Path

_PERIOD = 100_000
"""Microseconds; the kernel's default period."""
_V1 = Path("/sys/fs/cgroup/cpu")
_V2 = Path("/sys/fs/cgroup")


def hierarchy() -> Path | None:
    """The directory under which Outrider may make groups that limit CPU, or None."""
    for root, probe in ((_V2, "cgroup.controllers"), (_V1, "cpu.cfs_quota_us")):
        if not (root / probe).exists():
            continue
        if root == _V2 and "cpu" not in (root / "cgroup.subtree_control").read_text().split():
            continue
        group = root / "outrider"
        with contextlib.suppress(OSError):
            group.mkdir(exist_ok=True)
            if root == _V2:
                (group / "cgroup.subtree_control").write_text("+cpu")
            return group
    return None


def limit(pid: int, name: str, cores: float) -> bool:
    """Put a process (and what it starts) under a quota of ``cores``; False where no group is writable."""
    parent = hierarchy()
    if parent is None:
        return False
    group = parent / name
    quota = int(cores * _PERIOD)
    try:
        group.mkdir(exist_ok=True)
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota} {_PERIOD}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        (group / "cgroup.procs").write_text(str(pid))
    except OSError:
        return False
    return True


def release(name: str) -> None:
    """Remove the group of an ended replica."""
    for root in (_V2, _V1):
        with contextlib.suppress(OSError):
            (root / "outrider" / name).rmdir()
