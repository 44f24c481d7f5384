from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outrider.app.server import Progress
from outrider.errors import DiskFull, WeightsCorrupt, WeightsUnavailable
from outrider.models.cache import Cache
from outrider.models.weights import Weights
from tests.models.hub_server import Hub, serve

CONTENT = random.Random(1).randbytes(12_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
FILES = {"model.gguf": CONTENT, "config.json": b"{}", "sub/x.safetensors": b"weights", "pytorch_model.bin": b"double"}


@pytest.fixture
def hub(cache_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serve(dict(FILES)) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        # Read once, when the package is first imported: whatever test that was in.
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_HOME", str(cache_root.parent / "hf"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield server


def leftovers(cache_root: Path) -> list[Path]:
    return [path for path in (cache_root / "partial").rglob("*") if path.is_file()]


def test_fetches_a_file_once(hub: Hub, cache_root: Path) -> None:
    seen: list[Progress] = []
    path = Weights("hf:org/model#model.gguf", sha256=SHA256).prepare(seen.append)
    assert path.read_bytes() == CONTENT
    assert path == cache_root / "blobs/sha256" / SHA256 / "model.gguf"
    assert any(step.detail == "downloading model.gguf" and step.total == len(CONTENT) for step in seen)
    assert Weights("hf:org/model#model.gguf", sha256=SHA256).prepare(seen.append) == path
    assert hub.downloads == [("model.gguf", None)]
    assert leftovers(cache_root) == []


def test_a_broken_download_goes_on_where_it_stopped(hub: Hub) -> None:
    hub.break_at = 11_000_000
    path = Weights("hf:org/model#model.gguf", sha256=SHA256).prepare(lambda _: None)
    assert path.read_bytes() == CONTENT
    assert [wanted for _, wanted in hub.downloads] == [None, "bytes=10485760-"]  # read in pieces of 1 MiB


def test_a_try_that_was_killed_is_resumed_by_the_next(hub: Hub, cache_root: Path) -> None:
    script = (
        "import os\n"
        "from outrider.models.weights import Weights\n"
        "def report(step):\n"
        "    if (step.done or 0) >= 10_000_000:\n"
        "        os.kill(os.getpid(), 9)\n"
        f"Weights('hf:org/model#model.gguf', sha256={SHA256!r}).prepare(report)\n"
    )
    hub.hold_at = 11_000_000
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    hub.go_on.set()
    assert killed.returncode == -9
    assert leftovers(cache_root)
    assert Weights("hf:org/model#model.gguf", sha256=SHA256).prepare(lambda _: None).read_bytes() == CONTENT
    assert [wanted is None for _, wanted in hub.downloads] == [True, False]
    assert leftovers(cache_root) == []


def test_two_processes_fetch_a_file_once(hub: Hub) -> None:
    script = (
        "from outrider.models.weights import Weights\n"
        f"print(Weights('hf:org/model#model.gguf', sha256={SHA256!r}).prepare(lambda _: None))\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert said[0] == said[1] != ""
    assert hub.downloads == [("model.gguf", None)]


def test_a_wrong_digest_removes_what_came(hub: Hub, cache_root: Path) -> None:
    with pytest.raises(WeightsCorrupt, match="12,000,000 bytes"):
        Weights("hf:org/model#model.gguf", sha256="0" * 64).prepare(lambda _: None)
    assert leftovers(cache_root) == []
    assert Cache(cache_root).blobs() == []


def test_a_snapshot_leaves_other_formats_out_and_has_a_digest(hub: Hub) -> None:
    directory = Weights("hf:org/model").prepare(lambda _: None)
    names = sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())
    assert [name for name in names if not name.startswith(".")] == ["config.json", "sub/x.safetensors"]
    manifest = "".join(f"{hashlib.sha256(FILES[n]).hexdigest()}  {n}\n" for n in ("config.json", "sub/x.safetensors"))
    assert directory.parent.name == hashlib.sha256(manifest.encode()).hexdigest()
    # A restart must not change a model, even where the hub has another one by now.
    hub.files["config.json"] = b'{"changed": true}'
    assert Weights("hf:org/model").prepare(lambda _: None) == directory


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("hf:org/model#other.gguf", "no such file"),
        ("hf:org/model@v9#model.gguf", "no revision 'v9'"),
        ("hf:org/unknown#model.gguf", "has no org/unknown"),
    ],
)
def test_what_the_hub_lacks_is_named(hub: Hub, cache_root: Path, reference: str, said: str) -> None:
    with pytest.raises(WeightsUnavailable, match=said) as caught:
        Weights(reference).prepare(lambda _: None)
    assert said in caught.value.details["tried"][reference]
    assert not list((cache_root / "partial").iterdir())


def test_the_token_is_sent(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    Weights("hf:org/model#config.json").prepare(lambda _: None)
    assert hub.authorizations[-1] == "Bearer hf_test"


def test_a_gated_repository_says_what_to_do(hub: Hub) -> None:
    hub.status = 403
    with pytest.raises(WeightsUnavailable, match="HF_TOKEN"):
        Weights("hf:org/model#model.gguf").prepare(lambda _: None)


def test_nobody_answers(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(WeightsUnavailable, match="could not be reached"):
        Weights("hf:org/model#model.gguf").prepare(lambda _: None)


def test_the_next_source_is_tried(hub: Hub, tmp_path: Path) -> None:
    weights = Weights(f"path:{tmp_path}/absent.gguf", "hf:org/model#model.gguf", sha256=SHA256)
    assert weights.prepare(lambda _: None).read_bytes() == CONTENT


def test_more_than_the_disk_holds_is_refused_before_it_is_fetched(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("outrider.models.cache._MARGIN", 1 << 62)
    with pytest.raises(DiskFull, match="bytes are needed"):
        Weights("hf:org/model#model.gguf").prepare(lambda _: None)
    assert hub.downloads == []
