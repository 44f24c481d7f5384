"""The builds of engines that Outrider knows: who made each, for which platform, with which digest, and what tests it.

The data is ``builds.yaml`` beside this file; ``docs/support.md`` is made from it.
"""

from __future__ import annotations

import platform as this_platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

_FILE = Path(__file__).with_name("builds.yaml")


@dataclass(frozen=True, slots=True)
class Build:
    """One wheel.

    Attributes:
        engine: Outrider's name: ``llamacpp``, ``vllm``, ``sglang``.
        package: the distribution that pip installs.
        module: what Python imports.
        version: of the package.
        publisher: who made the wheel, with a URL.
        upstream: whose code it holds, with a URL.
        third_party: publisher and upstream are not the same people.
        note: one line, what it is.
        python, platform: the wheel's tags (PEP 425).
        sha256: of the wheel, as the index gives it.
        cpu: flags of ``/proc/cpuinfo`` that its code needs.
        cuda: CUDA it was built for, as ``13.0``: the least that the driver must run. None: it needs no GPU.
        tested: the make target that runs this wheel; None: no test here does.
    """

    engine: str
    package: str
    module: str
    version: str
    publisher: str
    upstream: str
    third_party: bool
    note: str
    python: str
    platform: str
    sha256: str
    cpu: tuple[str, ...] = ()
    cuda: str | None = None
    tested: str | None = None

    @property
    def machine(self) -> str:
        """Processor architecture, as ``platform.machine()`` says it."""
        return "aarch64" if self.platform.endswith("aarch64") else "x86_64"

    @property
    def status(self) -> str:
        """``tested here: TARGET``, or ``generated only``."""
        if self.tested:
            return f"tested here: `{self.tested}`"
        return "generated only"


@cache
def builds() -> tuple[Build, ...]:
    """Every build, in the file's order."""
    found = []
    for entry in yaml.safe_load(_FILE.read_text(encoding="utf-8")):
        shared = {key: value for key, value in entry.items() if key != "wheels"}
        found += [Build(**{**shared, **wheel, "cpu": tuple(wheel.get("cpu", ()))}) for wheel in entry["wheels"]]
    return tuple(found)


def packages(engine: str) -> list[str]:
    """The packages that hold an engine, in the file's order."""
    return list(dict.fromkeys(build.package for build in builds() if build.engine == engine))


def pinned(package: str, machine: str | None = None, python: tuple[int, int] | None = None) -> Build | None:
    """The build of a package for a processor and a Python (default: these), or None."""
    architecture = machine or this_platform.machine()
    major, minor = python or sys.version_info[:2]
    own = f"cp{major}{minor}-"
    fitting = [
        build
        for build in builds()
        if build.package == package
        and build.machine == architecture
        and (build.python.endswith("-abi3") or build.python.startswith(own))
    ]
    return fitting[0] if fitting else None


def page() -> str:
    """``docs/support.md``, whole."""
    lines = [
        "# Support",
        "",
        "Which engine builds Outrider knows, and what was done with each. Linux only.",
        "",
        "- *tested here*: the make target named runs this very wheel, with a real model.",
        "- *generated only*: Outrider writes the configuration; no test here starts it (it needs a GPU or another",
        "  processor).",
        "",
        "Every wheel is pinned by SHA-256, and `outrider doctor` compares the installed version with the pinned one.",
        "",
        "| engine | package | version | platform | Python | status |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_row(build) for build in builds()),
        "",
        "## Who made them",
        "",
        "A third-party build is not published by the people who write the engine: you trust its publisher too.",
        "",
        "| package | publisher | upstream | third-party | what it is | needs |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_origin(package) for package in dict.fromkeys(build.package for build in builds())),
        "",
        "## Digests",
        "",
        "Install with the digest checked: put `PACKAGE==VERSION --hash=sha256:DIGEST` into a file and run",
        "`pip install --no-deps --require-hashes -r FILE`.",
        "",
        "| package | Python | platform | SHA-256 of the wheel |",
        "| --- | --- | --- | --- |",
        *(f"| {b.package} {b.version} | {b.python} | {b.platform} | `{b.sha256}` |" for b in builds()),
        "",
        "Made from `src/outrider/engines/builds.yaml` by `python -m outrider.engines.builds > docs/support.md`.",
        "",
    ]
    return "\n".join(lines)


def _row(build: Build) -> str:
    cells = (build.engine, build.package, build.version, build.platform, build.python, build.status)
    return f"| {' | '.join(cells)} |"


def _origin(package: str) -> str:
    own = [build for build in builds() if build.package == package]
    first, needs = own[0], _needs(own)
    third = "**yes**" if first.third_party else "no"
    return f"| {package} | {first.publisher} | {first.upstream} | {third} | {first.note} | {needs} |"


def _needs(own: Sequence[Build]) -> str:
    needs = [f"{build.machine}: {', '.join(build.cpu).upper()}" for build in own if build.cpu]
    if own[0].cuda:
        needs.append(f"an NVIDIA driver that runs CUDA {own[0].cuda}")
    return "; ".join(needs) or "–"


if __name__ == "__main__":
    print(page(), end="")
