"""A machine on which everything is well; tests change one fact of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from outrider.engines.builds import pinned
from outrider.placement.machine import (
    Clock,
    Directory,
    InstalledEngine,
    Interpreter,
    Machine,
    Memory,
    OpenFiles,
    Port,
    Processor,
    Sockets,
)
from outrider.placement.nvidia import Nvidia
from outrider.spec.inventory import Gpu

GIB = 2**30


def _directory(variable: str, path: str) -> Directory:
    return Directory(variable, Path(path), Path(path), True, 100 * GIB, "ext4")


def llamacpp(version: str | None = None, trouble: str | None = None) -> InstalledEngine:
    """The engine in Outrider's own Python, by default as pinned and whole."""
    pin = pinned("xllamacpp", "x86_64", (3, 12))
    assert pin is not None
    return InstalledEngine(Path("/venv/bin/python"), True, "llamacpp", "xllamacpp", version or pin.version, trouble)


def vllm() -> InstalledEngine:
    """vLLM for GPUs, in an environment of its own."""
    pin = pinned("vllm", "x86_64", (3, 12))
    assert pin is not None
    return InstalledEngine(Path("/cache/environments/1/bin/python"), False, "vllm", "vllm", pin.version, None)


WELL = Machine(
    processor=Processor(16, 16, None, False, "AMD EPYC", "x86_64", frozenset({"avx2", "fma", "f16c"})),
    memory=Memory(128 * GIB, 120 * GIB, None),
    home=_directory("OUTRIDER_HOME", "/home/a/.local/state/outrider"),
    cache=_directory("OUTRIDER_CACHE", "/home/a/.cache/outrider"),
    sockets=Sockets(Path("/run/user/1000/outrider-0123456789ab"), 60, True),
    quota_obstacle=None,
    nvidia=Nvidia((Gpu(name="NVIDIA H200", memory_bytes=150754820096),), "580.159.04", "13.0", None, (), 1),
    engines=(llamacpp(), vllm()),
    ports=(Port("gateway", 8080, "free"), Port("controller", 8081, "ours")),
    clock=Clock(datetime(2027, 1, 1, tzinfo=UTC), True, "tsc"),
    open_files=OpenFiles(65536, None),
    python=Interpreter((3, 12, 3), Path("/venv/bin/python"), True, Path("/usr/bin/uv")),
)
