"""Weights from the Hugging Face hub: one file, or a snapshot of what an engine reads.

The hub's own client says what there is (it knows the token from ``HF_TOKEN`` or ``hf auth login``, ``HF_ENDPOINT`` and
``HF_HUB_OFFLINE``). The bytes are fetched here, with ranges at a fixed commit, because that client begins anew when its
process was killed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Protocol

import httpx

from outrider.app.server import Progress, Report
from outrider.errors import WeightsUnavailable
from outrider.models.cache import Cache
from outrider.models.sources import HubSource
from outrider.spec.writing import guard

_CONNECT = 10.0
"""Seconds that the hub may take to answer at all."""
_TIMEOUT = httpx.Timeout(60.0, connect=_CONNECT)
_CHUNK = 1024 * 1024
_TRIES = 5
"""Times in a row that a download may break off without a byte gained."""
_LEFT_OUT = (
    *("*.bin", "*.pt", "*.pth", "*.ckpt", "*.gguf", "*.onnx", "onnx/*", "*.h5", "*.msgpack", "*.tflite"),
    *("*.png", "*.jpg", "*.gif", "*.pdf", "original/*", ".*", "*/.*"),
)
"""Other formats of the same weights, and pictures: no engine here reads them, and they double the download."""


def fetch(source: HubSource, workspace: Path, cache: Cache, report: Report) -> Path:
    """Bring one file or a snapshot into ``workspace``, going on where an earlier try stopped; where it lies there.

    Raises:
        WeightsUnavailable: no network, offline, no such repository, revision or file, or no right to it.
        DiskFull: less is free than the hub says that will come.
    """
    report(Progress(f"asking the hub for {source.repo}"))
    try:
        _reach()
        files = _list(source, workspace / ".hub")
        download = _Download(source, workspace, files, report)
        cache.require_free(download.missing)
        with guard(cache.root):
            return download.run()
    except Exception as error:
        if not _is_network(error):
            raise
        raise _unavailable(source, error) from error
    finally:
        shutil.rmtree(workspace / ".hub", ignore_errors=True)
        if not any(path.is_file() for path in workspace.rglob("*")):
            shutil.rmtree(workspace, ignore_errors=True)  # nothing to resume from


class _File(Protocol):
    """What the hub's client says of a file."""

    filename: str
    file_size: int
    commit_hash: str


class _Download:
    """The files of one commit, in a directory of that commit: bytes of two commits are never mixed."""

    def __init__(self, source: HubSource, workspace: Path, files: list[_File], report: Report) -> None:
        if not files:
            raise WeightsUnavailable(f"hf:{source.repo} holds no weights", remedy="Name a file after '#'.")
        if climbing := next((info.filename for info in files if ".." in Path(info.filename).parts), None):
            raise WeightsUnavailable(f"hf:{source.repo} names a file outside itself", why=climbing)
        self._source = source
        self._files = files
        self._report = report
        self._target = workspace / files[0].commit_hash / source.repo.rpartition("/")[2]
        for stale in workspace.iterdir():
            if stale != self._target.parent:
                shutil.rmtree(stale, ignore_errors=True)
        self._total = sum(info.file_size for info in files)
        self._done = sum(_size(self._target / info.filename) + _size(self._part(info)) for info in files)

    @property
    def missing(self) -> int:
        """Bytes to come."""
        return max(0, self._total - self._done)

    def run(self) -> Path:
        """Fetch what is missing; the file, or the directory."""
        with httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as client:
            for info in self._files:
                if not (self._target / info.filename).exists():
                    self._one(client, info)
        return self._target / self._source.file if self._source.file else self._target

    def _part(self, info: _File) -> Path:
        return self._target / f"{info.filename}.part"

    def _one(self, client: httpx.Client, info: _File) -> None:
        part = self._part(info)
        part.parent.mkdir(parents=True, exist_ok=True)
        part.touch()
        left = _TRIES
        while (have := _size(part)) < info.file_size:
            try:
                self._stream(client, info, part, have)
            except httpx.TransportError:
                left = left - 1 if _size(part) <= have else _TRIES
                if not left:
                    raise
        part.replace(self._target / info.filename)

    def _stream(self, client: httpx.Client, info: _File, part: Path, have: int) -> None:
        import huggingface_hub

        url = huggingface_hub.hf_hub_url(
            self._source.repo, info.filename, revision=info.commit_hash, endpoint=os.environ.get("HF_ENDPOINT")
        )
        # Compressed in transit, a range would count other bytes than the file's.
        headers = {"Accept-Encoding": "identity", "User-Agent": "outrider"}
        if token := huggingface_hub.get_token():
            headers["Authorization"] = f"Bearer {token}"
        if have:
            headers["Range"] = f"bytes={have}-"
        with client.stream("GET", url, headers=headers) as response:
            response.raise_for_status()
            whole = response.status_code != 206
            self._done -= have if whole else 0
            with part.open("wb" if whole else "ab") as writer:
                for chunk in response.iter_raw(_CHUNK):
                    writer.write(chunk)
                    writer.flush()
                    self._done += len(chunk)
                    self._report(Progress(f"downloading {info.filename}", self._done, self._total))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _reach() -> None:
    """Ask the hub for anything. Its client would try for half a minute before it says that nobody answers."""
    if os.environ.get("HF_HUB_OFFLINE") != "1":
        httpx.head(os.environ.get("HF_ENDPOINT") or "https://huggingface.co", timeout=_CONNECT)


def _list(source: HubSource, scratch: Path) -> list[_File]:
    """What would be downloaded: ``filename, file_size, commit_hash`` of each file."""
    import huggingface_hub

    where: dict[str, Any] = {
        "revision": source.revision,
        "cache_dir": scratch,
        "endpoint": os.environ.get("HF_ENDPOINT"),
        "dry_run": True,
    }
    if source.file is None:
        answer = huggingface_hub.snapshot_download(source.repo, ignore_patterns=list(_LEFT_OUT), **where)
        return answer if isinstance(answer, list) else []
    return [huggingface_hub.hf_hub_download(source.repo, source.file, **where)]


def _is_network(error: BaseException) -> bool:
    from huggingface_hub import errors

    hub = (errors.HfHubHTTPError, errors.EntryNotFoundError, errors.OfflineModeIsEnabled, errors.HFValidationError)
    return isinstance(error, (*hub, errors.FileMetadataError, httpx.HTTPError))


def _unavailable(source: HubSource, error: BaseException) -> WeightsUnavailable:
    from huggingface_hub import errors

    what, remedy = f"The hub could not be reached for {source.repo}", "Check the network, or use another source."
    if isinstance(error, errors.GatedRepoError):
        what, remedy = f"hf:{source.repo} is gated", "Accept its licence on the hub, then set HF_TOKEN."
    elif isinstance(error, errors.RepositoryNotFoundError):
        what, remedy = f"The hub has no {source.repo} for you", "Correct the name, or set HF_TOKEN if it is private."
    elif isinstance(error, errors.RevisionNotFoundError):
        what, remedy = f"hf:{source.repo} has no revision {source.revision!r}", "Correct what stands after '@'."
    elif isinstance(error, errors.RemoteEntryNotFoundError):
        what, remedy = f"{source} has no such file", "Correct what stands after '#'."
    elif isinstance(error, errors.OfflineModeIsEnabled) or os.environ.get("HF_HUB_OFFLINE") == "1":
        what, remedy = f"hf:{source.repo} was not asked: HF_HUB_OFFLINE is set", "Unset it, or use another source."
    return WeightsUnavailable(what, why=_first_line(error), remedy=remedy)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
