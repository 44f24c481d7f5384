"""Weights from the Hugging Face hub, by plain HTTP with ranges: resumable, with bytes to show."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import httpx

from outrider.app.server import Progress, Report
from outrider.errors import WeightsUnavailable
from outrider.models.cache import Cache
from outrider.models.sources import HubSource

_CHUNK = 1024 * 1024
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)


def fetch(source: HubSource, partial: Path, cache: Cache, report: Report) -> None:
    """Write one file of a repository to ``partial``, going on where an earlier try stopped.

    Raises:
        WeightsUnavailable: no network, no such file, or no right (set ``HF_TOKEN``).
    """
    if source.file is None:
        raise WeightsUnavailable(
            f"hf:{source.repo} names no file", remedy="Add the file after '#', for example #model.gguf"
        )
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise WeightsUnavailable(f"hf:{source.repo} was not asked", why="HF_HUB_OFFLINE=1", remedy="Unset it.")
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    url = f"{endpoint}/{source.repo}/resolve/{quote(source.revision, safe='')}/{quote(source.file)}"
    have = partial.stat().st_size if partial.exists() else 0
    headers = {"Range": f"bytes={have}-"} if have else {}
    if token := os.environ.get("HF_TOKEN"):
        headers["Authorization"] = f"Bearer {token}"
    try:
        with httpx.stream("GET", url, headers=headers, follow_redirects=True, timeout=_TIMEOUT) as response:
            if response.status_code == 416:
                return  # the partial file is whole already
            _refuse(source, response)
            _write(response, source, partial, have if response.status_code == 206 else 0, cache, report)
    except httpx.HTTPError as error:
        raise WeightsUnavailable(
            f"hf:{source.repo} could not be reached",
            why=str(error) or type(error).__name__,
            remedy="Check the network.",
        ) from error


def _refuse(source: HubSource, response: httpx.Response) -> None:
    if response.status_code in (401, 403):
        raise WeightsUnavailable(
            f"hf:{source.repo} refused", why=f"HTTP {response.status_code}", remedy="Set HF_TOKEN; accept its licence."
        )
    if response.status_code >= 400:
        raise WeightsUnavailable(
            f"hf:{source.repo}@{source.revision} has no {source.file}",
            why=f"HTTP {response.status_code}",
            remedy="Correct the reference.",
        )


def _write(response: httpx.Response, source: HubSource, partial: Path, have: int, cache: Cache, report: Report) -> None:
    length = response.headers.get("Content-Length")
    total = have + int(length) if length else None
    cache.require_free((total or have) - have)
    with partial.open("ab" if have else "wb") as writer:
        done = have
        for chunk in response.iter_bytes(_CHUNK):
            writer.write(chunk)
            done += len(chunk)
            report(Progress(f"downloading {source.file}", done, total))
