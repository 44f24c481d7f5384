from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from outrider.app.server import Progress
from outrider.errors import DiskFull, InvalidReference, MachineFault, PermissionRefused, WeightsCorrupt
from outrider.models.cache import Cache
from outrider.spec.writing import guard

CONTENT = b"weights" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def ignore(_: Progress) -> None:
    pass


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def admit(cache: Cache, *, reference: str = "hf:a/b", name: str = "x.gguf", sha256: str | None = SHA256) -> Path:
    fetched = cache.workspace(reference) / name
    fetched.write_bytes(CONTENT)
    return cache.admit(fetched, reference, sha256, ignore)


def test_what_is_admitted_is_found_by_digest_and_by_reference(cache: Cache) -> None:
    path = admit(cache, sha256=None)
    assert path == cache.root / "blobs/sha256" / SHA256 / "x.gguf"
    assert cache.find(SHA256, ignore) == path
    assert cache.known("hf:a/b", ignore) == path
    assert cache.known("hf:other/b", ignore) is None
    assert [(blob.name, blob.sha256, blob.bytes) for blob in cache.blobs()] == [("x.gguf", SHA256, len(CONTENT))]


def test_a_second_reference_of_the_same_content_shares_the_blob(cache: Cache) -> None:
    first = admit(cache)
    assert admit(cache, reference="hf:c/d") == first
    assert len(cache.blobs()) == 1
    assert list((cache.root / "partial").iterdir()) == []


def test_a_wrong_digest_is_refused_and_removed(cache: Cache) -> None:
    with pytest.raises(WeightsCorrupt) as caught:
        admit(cache, sha256="0" * 64)
    assert caught.value.details == {"expected": "0" * 64, "found": SHA256, "bytes": len(CONTENT)}
    assert list((cache.root / "partial").iterdir()) == []
    assert cache.blobs() == []


def test_a_blob_that_was_truncated_is_removed_when_it_is_looked_for(cache: Cache) -> None:
    path = admit(cache)
    os.truncate(path, 10)
    seen: list[Progress] = []
    assert cache.find(SHA256, seen.append) is None
    assert any("damaged" in step.detail for step in seen)
    assert not path.exists()


def test_verify_reads_what_find_would_believe(cache: Cache) -> None:
    path = admit(cache)
    assert cache.verify(SHA256, ignore)
    status = path.stat()
    path.write_bytes(CONTENT[:-1] + b"!")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert cache.find(SHA256, ignore) == path
    assert not cache.verify(SHA256, ignore)
    assert not cache.verify("1" * 64, ignore)


def test_remove_frees_bytes(cache: Cache) -> None:
    path = admit(cache)
    assert cache.remove(SHA256) == len(CONTENT)
    assert not path.parent.exists()
    assert cache.remove(SHA256) == 0


def test_a_digest_is_no_path(cache: Cache) -> None:
    with pytest.raises(InvalidReference):
        cache.remove("../../..")


def test_a_lock_is_waited_for_and_said_so(cache: Cache) -> None:
    # flock is held by an open file, so a second one in this process stands for another process.
    with cache.lock("x", ignore):
        child = os.fork()
        if child == 0:
            try:
                with cache.lock("x", lambda step: os._exit(42 if "waiting" in step.detail else 1)):
                    os._exit(2)
            finally:
                os._exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    with cache.lock("x", ignore):
        pass


def test_too_little_room_is_refused(cache: Cache) -> None:
    with pytest.raises(DiskFull, match="bytes are needed") as caught:
        cache.require_free(1 << 60)
    assert caught.value.details["needed"] == 1 << 60
    cache.require_free(0)


def test_a_full_disk_is_one_line() -> None:
    with pytest.raises(DiskFull, match="OUTRIDER_CACHE"), guard(Path("/dev/full")), Path("/dev/full").open("w") as file:
        file.write("x")
        file.flush()


def test_no_right_to_write_is_one_line() -> None:
    place = Path("/sys/outrider-cache") if os.getuid() == 0 else Path("/outrider-cache")
    with pytest.raises(PermissionRefused, match="Cannot write under"):
        Cache(place).require_free(0)


def test_a_cache_below_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineFault, match="Not a directory"):
        Cache(tmp_path / "file/cache").workspace("hf:a/b")
