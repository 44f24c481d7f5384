"""``Weights``: the files of a model, from the first of several sources that has them."""

from __future__ import annotations

from pathlib import Path

from outrider.app.server import Progress, Report
from outrider.errors import InvalidReference, WeightsCorrupt, WeightsUnavailable
from outrider.models import hub, packages
from outrider.models.cache import Cache, check_digest
from outrider.models.digests import size
from outrider.models.sources import HubSource, PackageSource, PathSource, ShippedSource, parse


class Weights:
    """Where a model's weights come from, and what they must be.

    Args:
        sources: references, tried in order (see :mod:`outrider.models.sources`).
        sha256: hex digest that the file must have (for a directory: that of its manifest, see
            :mod:`outrider.models.digests`). None: whatever comes first is accepted, and stays.

    Raises:
        InvalidReference: no source, one that cannot be read, or a digest that is none.
    """

    def __init__(self, *sources: str, sha256: str | None = None) -> None:
        if not sources:
            raise InvalidReference("Weights() names no source", remedy='For example Weights("path:/models/x.gguf").')
        self.sources = sources
        self.sha256 = None if sha256 is None else check_digest(sha256.lower())
        self._parsed = [parse(source) for source in sources]

    def __repr__(self) -> str:
        """As one would write it."""
        return f"Weights({', '.join(map(repr, self.sources))}, sha256={self.sha256!r})"

    def describe(self) -> dict[str, object]:
        """JSON-serialisable form."""
        return {"sources": list(self.sources), "sha256": self.sha256}

    def cached(self, report: Report) -> Path | None:
        """Where they lie if nothing has to be fetched: in the cache, checked, or at a path that is a source."""
        cache = Cache.from_environment()
        if self.sha256 is not None and (blob := cache.find(self.sha256, report)) is not None:
            return blob
        for source in self._parsed:
            if isinstance(source, PathSource | ShippedSource) and source.path.exists():
                return self._in_place(source.path, cache, report)
            if self.sha256 is None and (blob := cache.known(str(source), report)) is not None:
                return blob
        return None

    def prepare(self, report: Report) -> Path:
        """Make the file or directory present and checked; its path.

        Raises:
            WeightsCorrupt: a source gave something else than promised. The next source is not tried: somebody should
                look at it.
            WeightsUnavailable: none has it; ``details["tried"]`` says what each answered.
            DiskFull, PermissionRefused
        """
        cache = Cache.from_environment()
        if self.sha256 is not None and (blob := cache.find(self.sha256, report)) is not None:
            return _announce(blob, report)
        tried: dict[str, str] = {}
        for reference, source in zip(self.sources, self._parsed, strict=True):
            try:
                if isinstance(source, PathSource | ShippedSource):
                    return self._in_place(source.path, cache, report)
                return self._fetched(str(source), source, cache, report)
            except WeightsUnavailable as error:
                tried[reference] = str(error).rstrip(".")
        raise WeightsUnavailable(
            "None of the sources has the weights",
            why="; ".join(f"{reference}: {answer}" for reference, answer in tried.items()),
            remedy="Mend one of them, or name another source.",
            details={"tried": tried},
        )

    def _in_place(self, path: Path, cache: Cache, report: Report) -> Path:
        try:
            if self.sha256 is None:
                path.stat()
                return path
            found = cache.memory.digest(path, report)
        except OSError as error:
            raise WeightsUnavailable(f"Cannot read {path}", why=error.strerror, remedy="Check the path.") from error
        if found != self.sha256:
            raise WeightsCorrupt(
                f"{path} is not what was promised",
                why=f"its {size(path):,} bytes have SHA-256 {found[:12]}…, expected {self.sha256[:12]}…",
                remedy="It was left as it is: give the right file, or correct the digest.",
                details={"expected": self.sha256, "found": found},
            )
        return path

    def _fetched(self, reference: str, source: HubSource | PackageSource, cache: Cache, report: Report) -> Path:
        with cache.lock(self.sha256 or reference, report):
            # Whoever held the lock before may have brought it.
            done = cache.find(self.sha256, report) if self.sha256 else cache.known(reference, report)
            if done is not None:
                return _announce(done, report)
            workspace = cache.workspace(reference)
            if isinstance(source, HubSource):
                fetched = hub.fetch(source, workspace, cache, report)
            else:
                try:
                    fetched = packages.fetch(source, workspace, cache, report)
                except BaseException:
                    cache.discard(reference)  # nothing in it can be resumed
                    raise
            return cache.admit(fetched, reference, self.sha256, report)


def _announce(blob: Path, report: Report) -> Path:
    count = size(blob)
    report(Progress("weights are in the cache", count, count))
    return blob
