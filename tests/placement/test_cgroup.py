"""A process's own limits, read from trees as the kernel lays them out; and that looking makes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider.placement import cgroup
from outrider.placement.cgroup import Limits


def _write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def _limits(tmp_path: Path, membership: str, files: dict[str, str]) -> Limits:
    _write(tmp_path / "cgroup", files)
    (tmp_path / "self").write_text(membership)
    return cgroup.limits(tmp_path / "cgroup", tmp_path / "self")


def test_the_tightest_limit_on_the_way_up_holds_v2(tmp_path: Path) -> None:
    files = {
        "a/cpu.max": "150000 100000\n",
        "a/memory.max": "max\n",
        "a/b/cpu.max": "max 100000\n",
        "a/b/memory.max": "2147483648\n",
    }
    assert _limits(tmp_path, "0::/a/b\n", files) == Limits(1.5, 2**31)


def test_limits_of_v1(tmp_path: Path) -> None:
    files = {
        "cpu/cpu.cfs_quota_us": "-1\n",
        "cpu/cpu.cfs_period_us": "100000\n",
        "cpu/docker/1/cpu.cfs_quota_us": "50000\n",
        "cpu/docker/1/cpu.cfs_period_us": "100000\n",
        "memory/memory.limit_in_bytes": "9223372036854771712\n",
        "memory/docker/1/memory.limit_in_bytes": "536870912\n",
    }
    membership = "4:memory:/docker/1\n2:cpu,cpuacct:/docker/1\n1:name=systemd:/\n"
    assert _limits(tmp_path, membership, files) == Limits(0.5, 2**29)


def test_the_hosts_path_is_not_there_in_a_container(tmp_path: Path) -> None:
    files = {"memory/memory.limit_in_bytes": "1073741824\n", "memory.max": "max\n"}
    assert _limits(tmp_path, "4:memory:/docker/1\n0::/../x\n", files) == Limits(None, 2**30)


def test_without_limits_there_are_none(tmp_path: Path) -> None:
    assert _limits(tmp_path, "0::/\n", {"cgroup.controllers": "cpu memory\n"}) == Limits(None, None)
    assert cgroup.limits(tmp_path / "no", tmp_path / "neither") == Limits(None, None)


def test_the_obstacle_is_named(tmp_path: Path) -> None:
    assert "hands out the cpu controller" in (cgroup.obstacle(tmp_path) or "")
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    assert "hands out the cpu controller" in (cgroup.obstacle(tmp_path) or "")
    (tmp_path / "cgroup.subtree_control").write_text("cpu memory\n")
    assert cgroup.obstacle(tmp_path) is None
    assert [path.name for path in tmp_path.iterdir()] == ["cgroup.subtree_control"], "looking made something"


def test_a_group_that_cannot_be_written_is_an_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write everywhere but on such a mount
    assert cgroup.obstacle(tmp_path) == f"{tmp_path} cannot be written"
    (tmp_path / "outrider").mkdir()
    assert cgroup.obstacle(tmp_path) == f"{tmp_path / 'outrider'} cannot be written"


def test_no_obstacle_means_that_a_group_can_be_made() -> None:
    assert (cgroup.obstacle() is None) == (cgroup.hierarchy() is not None)
