"""The registry: drafters by name, their weights in the content-addressed cache, and which drafts for which target."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from outrider.app.server import Progress, Report
from outrider.drafting.card import FILE, Card, read_card
from outrider.errors import DrafterExists, DrafterUnfit, InvalidName, WeightsUnreadable
from outrider.models.cache import Cache
from outrider.models.digests import digest, size
from outrider.models.drafter import DrafterFacts, read_drafter
from outrider.models.drafter_check import Finding, Target, check, refusals
from outrider.models.sources import PathSource, parse
from outrider.models.weights import Weights
from outrider.recipes.bound import BoundDrafter, Method
from outrider.spec.writing import guard
from outrider.store.drafters import DrafterRecord, Drafters

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_KEPT = ("config.json", FILE, "README.md", "*.safetensors")
"""Files of a drafter's directory that are kept: what engines load, and what is known of it."""


@dataclass(frozen=True, slots=True)
class Use:
    """A drafter that drafts for a target from now on.

    Attributes:
        target: digest of the target's weights.
        warnings: what may be wrong with the pair.
    """

    record: DrafterRecord
    target: str
    warnings: Sequence[Finding]


class Registry:
    """Drafters. Blocking; ``now`` gives UTC ms."""

    def __init__(
        self,
        drafters: Drafters,
        *,
        cache: Cache | None = None,
        now: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._drafters = drafters
        self._cache = cache or Cache.from_environment()
        self._now = now

    def all(self) -> list[DrafterRecord]:
        """All, oldest first."""
        return self._drafters.list()

    def get(self, name: str) -> DrafterRecord:
        """One. Raises DrafterNotFound."""
        return self._drafters.get(name)

    def remove(self, name: str) -> DrafterRecord:
        """Forget one; its weights stay in the cache. Raises DrafterNotFound."""
        return self._drafters.remove(name)

    def targets(self) -> dict[str, list[str]]:
        """Name → digests of the targets that it drafts for."""
        found: dict[str, list[str]] = {}
        for target, record in self._drafters.bindings().items():
            found.setdefault(record.name, []).append(target)
        return found

    def add(self, reference: str, name: str | None = None, report: Report = lambda _: None) -> DrafterRecord:
        """Take a drafter into the cache and the registry.

        Args:
            reference: of its directory: ``path:``, ``hf:`` or ``outrider:``.
            name: None: its card's, else the directory's.

        Raises:
            InvalidReference, WeightsUnavailable: it cannot be had. WeightsUnreadable: it is no drafter.
            InvalidName: of characters that a name cannot have. DrafterExists: the name belongs to other weights.
        """
        directory = Weights(reference).prepare(report)
        if not directory.is_dir():
            raise WeightsUnreadable(
                f"{reference} is no drafter's directory", remedy="Give the directory with its config.json."
            )
        facts, card = read_drafter(directory), read_card(directory)
        called = _checked(name or card.name or directory.name)
        place = self._admit(directory, str(parse(reference)), called, report)
        return self._drafters.add(self._record(called, place, facts, card))

    def path(self, record: DrafterRecord, report: Report = lambda _: None) -> Path:
        """Where its weights lie. Raises WeightsUnreadable: they are no longer in the cache."""
        found = self._cache.find(record.sha256, report)
        if found is None:
            raise WeightsUnreadable(
                f"The weights of the drafter {record.name} are no longer in the cache",
                remedy=f"Take it in again: outrider drafter rm {record.name}, then outrider drafter use PATH",
            )
        return found

    def use(self, name: str, target: str, against: Target) -> Use:
        """Bind a drafter to a target, by the digest of the target's weights.

        Args:
            against: what is known of the target; the drafter must fit it.

        Raises:
            DrafterNotFound. DrafterUnfit: it cannot draft for this target; ``details["findings"]`` says why.
        """
        record = self.get(name)
        findings = check(read_drafter(self.path(record)), against)
        refused = refusals(findings)
        if refused:
            raise DrafterUnfit(
                f"The drafter {name} cannot draft for this target",
                why="; ".join(finding.what for finding in refused),
                remedy=refused[0].remedy,
                details={"findings": [shown(finding) for finding in findings]},
            )
        self._drafters.bind(name, target, at=self._now())
        return Use(record, target, findings)

    def release(self, target: str) -> None:
        """A target drafts as its recipe says again."""
        self._drafters.release(target)

    def bound(self) -> dict[str, BoundDrafter]:
        """Digest of a target's weights, and every reference known to be those weights → its drafter."""
        found: dict[str, BoundDrafter] = {}
        for target, record in self._drafters.bindings().items():
            directory = self._cache.find(record.sha256, lambda _: None)
            if directory is None or record.method not in get_args(Method):
                continue
            drafter = as_bound(record, directory)
            found[target] = drafter
            found |= dict.fromkeys(self._cache.references_of(target), drafter)
        return found

    def digest(self, reference: str, report: Report = lambda _: None) -> str | None:
        """Digest of a target's weights; None: they were never fetched here."""
        source = parse(reference)
        if isinstance(source, PathSource):
            return self._cache.memory.digest(source.path, report) if source.path.exists() else None
        return self._cache.remembered(str(source))

    def _admit(self, directory: Path, reference: str, name: str, report: Report) -> Path:
        report(Progress("taking the drafter into the cache"))
        with self._cache.lock(reference, report):
            self._cache.require_free(size(directory))
            copy = self._cache.workspace(reference) / directory.name
            with guard(self._cache.root):
                shutil.rmtree(copy, ignore_errors=True)
                copy.mkdir()
                for pattern in _KEPT:
                    for file in directory.glob(pattern):
                        shutil.copyfile(file, copy / file.name)
            found = digest(copy, report)
            try:
                self._drafters.refuse_other(name, found)
            except DrafterExists:
                self._cache.discard(reference)
                raise
            return self._cache.admit(copy, reference, found, report)

    def _record(self, name: str, place: Path, facts: DrafterFacts, card: Card) -> DrafterRecord:
        return DrafterRecord(
            name=name,
            sha256=place.parent.name,
            bytes=size(place),
            method=facts.method,
            kind=facts.kind,
            block_size=facts.block_size,
            parent=card.parent,
            target=card.target.model_dump(mode="json"),
            data=card.data.model_dump(mode="json") if card.data.manifest else None,
            hyperparameters=dict(card.hyperparameters),
            modes=None if card.modes is None else list(card.modes),
            languages=None if card.languages is None else list(card.languages),
            max_context=card.max_context or facts.context_length,
            evaluation={"tau": dict(card.tau), **card.evaluation},
            created_at=self._now(),
        )


def as_bound(record: DrafterRecord, directory: Path) -> BoundDrafter:
    """A record as the planner takes it."""
    lengths = record.evaluation.get("tau") or {}
    method: Method = "dflash" if record.method == "dflash" else "eagle3" if record.method == "eagle3" else "draft"
    return BoundDrafter(
        name=record.name,
        reference=f"path:{directory}",
        method=method,
        tokens=None if record.block_size is None else record.block_size - 1,
        quantization=read_drafter(directory).quantisation or "none",
        acceptance_length=min(lengths.values(), default=None),
        max_context=record.max_context,
    )


def shown(finding: Finding) -> dict[str, str]:
    """A finding as JSON."""
    return {name: str(getattr(finding, name)) for name in finding.__slots__}


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidName(
            f"{name!r} is no name of a drafter",
            why="letters, digits, dots, dashes and underscores, 80 at most",
            remedy="Give one with --name.",
        )
    return name
