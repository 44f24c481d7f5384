"""Weights from the Hugging Face hub: one file, or a snapshot of what an engine reads.

The hub's own client fetches (it resumes, and knows tokens from ``HF_TOKEN`` or ``hf auth login``, ``HF_ENDPOINT`` and
``HF_HUB_OFFLINE``); it writes into the cache's workspace, not into a cache of its own.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import httpx

from outrider.app.server import Progress, Report
from outrider.errors import OutriderError, WeightsUnavailable
from outrider.models.cache import Cache, guard
from outrider.models.growth import Growth
from outrider.models.sources import HubSource

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
    target = workspace / source.repo.rpartition("/")[2]
    try:
        total = sum(info.file_size for info in _ask(source, target, dry_run=True) if info.will_download)
        cache.require_free(total)
        detail = f"downloading {source.file or source.repo}"
        with guard(cache.root), Growth(target, detail, lambda: total, report):
            _ask(source, target, dry_run=False)
    except Exception as error:
        _tidy(workspace)
        # The guard takes a refused connection, an OSError, for a refusal of the disk.
        cause = error.__cause__ if isinstance(error, OutriderError) else error
        if cause is None or not _is_network(cause):
            raise
        raise _unavailable(source, cause) from cause
    return target / source.file if source.file else target


def _ask(source: HubSource, target: Path, *, dry_run: bool) -> list[Any]:
    import huggingface_hub
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()  # bars that redraw themselves would fill the replica's log
    where: dict[str, Any] = {
        "revision": source.revision,
        "local_dir": target,
        "endpoint": os.environ.get("HF_ENDPOINT"),
        "dry_run": dry_run,
    }
    if source.file is None:
        answer = huggingface_hub.snapshot_download(source.repo, ignore_patterns=list(_LEFT_OUT), **where)
        return answer if isinstance(answer, list) else []
    one = huggingface_hub.hf_hub_download(source.repo, source.file, **where)
    return [one] if dry_run else []


def _tidy(workspace: Path) -> None:
    """Remove a workspace in which there is nothing to resume from."""
    files = [file for file in workspace.rglob("*") if file.is_file()]
    if not any(file.suffix == ".incomplete" or ".cache" not in file.parts[len(workspace.parts) :] for file in files):
        shutil.rmtree(workspace, ignore_errors=True)


def _is_network(error: BaseException) -> bool:
    from huggingface_hub import errors

    hub = (errors.HfHubHTTPError, errors.EntryNotFoundError, errors.OfflineModeIsEnabled, errors.HFValidationError)
    return isinstance(error, (*hub, errors.FileMetadataError, httpx.HTTPError, ConnectionError, TimeoutError))


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
