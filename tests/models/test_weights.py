from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from outrider.errors import InvalidReference, WeightsCorrupt, WeightsUnavailable
from outrider.models.weights import Weights


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def file(tmp_path: Path, cache_root: Path) -> Path:
    path = tmp_path / "x.gguf"
    path.write_bytes(b"weights")
    return path


def test_a_path_is_used_where_it_lies(file: Path, cache_root: Path) -> None:
    assert Weights(f"path:{file}", sha256=digest(b"weights").upper()).prepare(lambda _: None) == file
    assert not (cache_root / "blobs").exists()


def test_a_file_is_read_once_until_it_changes(file: Path) -> None:
    weights = Weights(f"path:{file}", sha256=digest(b"weights"))
    reads: list[object] = []
    weights.prepare(reads.append)
    assert reads
    reads.clear()
    weights.prepare(reads.append)
    assert reads == []
    file.write_bytes(b"changed")
    with pytest.raises(WeightsCorrupt, match="7 bytes"):
        weights.prepare(reads.append)
    assert file.read_bytes() == b"changed", "somebody else's file is left as it is"


def test_a_file_replaced_by_one_of_the_same_size_and_time_is_read_again(file: Path, tmp_path: Path) -> None:
    weights = Weights(f"path:{file}", sha256=digest(b"weights"))
    weights.prepare(lambda _: None)
    status = file.stat()
    other = tmp_path / "other"
    other.write_bytes(b"WEIGHTS")
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(file)
    with pytest.raises(WeightsCorrupt):
        weights.prepare(lambda _: None)


def test_a_directory_has_the_digest_of_its_manifest(tmp_path: Path, cache_root: Path) -> None:
    directory = tmp_path / "model"
    (directory / "sub").mkdir(parents=True)
    (directory / "b").write_bytes(b"2")
    (directory / "sub/a").write_bytes(b"1")
    (directory / ".hidden").write_bytes(b"3")
    sha256 = digest(f"{digest(b'2')}  b\n{digest(b'1')}  sub/a\n".encode())
    weights = Weights(f"path:{directory}", sha256=sha256)
    assert weights.prepare(lambda _: None) == directory
    (directory / "sub/a").write_bytes(b"0")
    with pytest.raises(WeightsCorrupt):
        weights.prepare(lambda _: None)


def test_every_source_says_why_not(tmp_path: Path, cache_root: Path) -> None:
    references = [f"path:{tmp_path}/a.gguf", f"path:{tmp_path}/b.gguf"]
    with pytest.raises(WeightsUnavailable) as caught:
        Weights(*references).prepare(lambda _: None)
    assert list(caught.value.details["tried"]) == references
    assert all("No such file" in answer for answer in caught.value.details["tried"].values())


def test_describes_itself_as_json() -> None:
    weights = Weights("path:/x", "hf:a/b", sha256="0" * 64)
    assert weights.describe() == {"sources": ["path:/x", "hf:a/b"], "sha256": "0" * 64}
    assert repr(weights) == f"Weights('path:/x', 'hf:a/b', sha256='{'0' * 64}')"


def test_bad_arguments_are_refused_when_they_are_written() -> None:
    with pytest.raises(InvalidReference, match="no source"):
        Weights()
    with pytest.raises(InvalidReference, match="no SHA-256"):
        Weights("path:/x", sha256="abc")
    with pytest.raises(InvalidReference, match="Did you mean 'hf:a/b'"):
        Weights("a/b")
