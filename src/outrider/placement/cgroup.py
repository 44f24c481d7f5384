"""CPU quotas by cgroup (v2 or v1), where one is writable (decision 20); and the limits this process is under itself."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

_PERIOD = 100_000
"""Microseconds; the kernel's default period."""
_DYING = 2.0
"""Seconds in which killed processes leave their group; they do in milliseconds, unless the machine is very busy."""
_ROOT = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_UNLIMITED = 2**60
"""Bytes from which a v1 limit means none: the kernel says 2^63 less a page there."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the groups of this process, and those above them, allow it. None: no limit."""

    cores: float | None
    memory_bytes: int | None


def limits(root: Path = _ROOT, membership: Path = _MEMBERSHIP) -> Limits:
    """The tightest limits of this process's groups (cgroups(7)); looks only."""
    try:
        lines = [line.split(":", 2) for line in membership.read_text().splitlines()]
    except OSError:
        return Limits(None, None)
    paths = {name: path for _, names, path in lines for name in names.split(",")}
    cores: list[float] = []
    memory: list[int] = []
    for group in _upwards(root, paths.get("", "/")):
        cores += _quota_v2(group)
        memory += _numbers(group / "memory.max")
    for group in _upwards(root / "cpu", paths.get("cpu", "/")):
        cores += _quota_v1(group)
    for group in _upwards(root / "memory", paths.get("memory", "/")):
        memory += [n for n in _numbers(group / "memory.limit_in_bytes") if n < _UNLIMITED]
    return Limits(min(cores, default=None), min(memory, default=None))


def obstacle(root: Path = _ROOT) -> str | None:
    """Why no CPU quota can be enforced here, in words; None: one can. Looks only."""
    parent = _controller(root)
    if parent is None:
        return f"no cgroup under {root} hands out the cpu controller"
    group = parent / "outrider"
    where = group if group.is_dir() else parent
    return None if os.access(where, os.W_OK | os.X_OK) else f"{where} cannot be written"


def hierarchy() -> Path | None:
    """The directory under which Outrider may make groups that limit CPU, or None. Makes it where it is not there."""
    parent = _controller(_ROOT)
    if parent is None:
        return None
    group = parent / "outrider"
    with contextlib.suppress(OSError):
        group.mkdir(exist_ok=True)
        if parent == _ROOT:
            (group / "cgroup.subtree_control").write_text("+cpu")
        return group
    return None


def make(name: str, cores: float) -> Path | None:
    """Make a group with a quota of ``cores``; the file a process joins it by, or None where no group is writable."""
    parent = hierarchy()
    if parent is None:
        return None
    group = parent / name
    quota = int(cores * _PERIOD)
    try:
        group.mkdir(exist_ok=True)
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota} {_PERIOD}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
    except OSError:
        return None
    return group / "cgroup.procs"


def release(name: str) -> None:
    """Remove the group of an ended replica. Blocks for some milliseconds while the kernel still counts its dead."""
    for root in (_ROOT, _ROOT / "cpu"):
        group = root / "outrider" / name
        deadline = time.monotonic() + _DYING
        while group.is_dir() and not _removed(group) and time.monotonic() < deadline:
            time.sleep(0.01)


def _removed(group: Path) -> bool:
    with contextlib.suppress(OSError):
        group.rmdir()
        return True
    return False


def _controller(root: Path) -> Path | None:
    """The directory whose children can limit CPU."""
    with contextlib.suppress(OSError):
        if "cpu" in (root / "cgroup.subtree_control").read_text().split():
            return root
    return root / "cpu" if (root / "cpu/cpu.cfs_quota_us").exists() else None


def _upwards(mount: Path, path: str) -> list[Path]:
    # In a container the path may be the host's and not exist below the mount: what exists counts.
    inner = mount / path.lstrip("/")
    return [group for group in (inner, *inner.parents) if group.is_relative_to(mount) and group.is_dir()]


def _quota_v2(group: Path) -> list[float]:
    with contextlib.suppress(OSError, ValueError):
        quota, period = (group / "cpu.max").read_text().split()
        return [int(quota) / int(period)]  # "max" is no number
    return []


def _quota_v1(group: Path) -> list[float]:
    quota, period = _numbers(group / "cpu.cfs_quota_us"), _numbers(group / "cpu.cfs_period_us")
    return [quota[0] / period[0]] if quota and period and quota[0] > 0 else []


def _numbers(file: Path) -> list[int]:
    with contextlib.suppress(OSError, ValueError):
        return [int(file.read_text())]
    return []
