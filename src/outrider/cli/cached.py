"""What lies in this machine's cache: which blob a person means, what it is for, and which endpoints use it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outrider.client.auth import Address
from outrider.client.http import Client
from outrider.errors import (
    Conflict,
    ControllerUnreachable,
    InvalidReference,
    NotFound,
    UnknownModel,
    UsageError,
)
from outrider.models.cache import Blob, Cache
from outrider.models.sources import parse
from outrider.recipes.library import Catalog
from outrider.recipes.plan import WeightsPlan
from outrider.recipes.weights import recipes_of, weights_named
from outrider.spec.home import Home

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{6,64})")
"""A digest or the beginning of one; six digits are enough to tell blobs apart, and too many for a word."""


@dataclass(frozen=True, slots=True)
class Use:
    """A revision whose weights a blob is; ``live``: replicas of it run, or are to run."""

    endpoint: str
    revision: int
    live: bool

    def __str__(self) -> str:
        """For people."""
        return f"{self.endpoint} {self.revision}" + ("" if self.live else " (not running)")


Uses = Mapping[str, Sequence[Use]]
"""By digest."""


def uses(cache: Cache) -> Uses | None:
    """Which revisions use which blobs, as this machine's own controller says; None: none answers."""
    found: dict[str, list[Use]] = {}
    with Client(address=Address.at_socket(Home.from_environment().api_socket)) as client:
        try:
            for view in client.endpoints():
                live = _live(view)
                for revision in client.revisions(view["name"]):
                    use = Use(view["name"], revision["number"], revision["number"] in live)
                    for sha256 in _digests(revision.get("weights") or {}, cache):
                        found.setdefault(sha256, []).append(use)
        except ControllerUnreachable:
            return None
    return found


def running_unseen() -> bool:
    """Whether replicas of this home may run without a controller that could say what they use."""
    directory = Home.from_environment().replicas
    return directory.is_dir() and any(directory.iterdir())


def select(name: str, cache: Cache, catalog: Catalog) -> Blob:
    """The blob that a person means: by digest, by the beginning of one, by reference, model or recipe.

    Raises:
        NotFound: it is not in the cache. UsageError: the digest begins several. InvalidReference, UnknownModel
    """
    blobs = cache.blobs()
    if match := _DIGEST.fullmatch(name):
        begins = [blob for blob in blobs if blob.sha256.startswith(match[1])]
        if len(begins) > 1:
            raise UsageError(f"{len(begins)} blobs begin with {match[1]}", remedy="Give more digits.")
    else:
        wanted = _digest_of(name, cache, catalog)
        begins = [blob for blob in blobs if blob.sha256 == wanted or name in (blob.name, *blob.references)]
    if not begins:
        raise NotFound(f"{name} is not in the cache", why=str(cache.root), remedy="See: outrider model list")
    return begins[0]


def origin(blob: Blob, catalog: Catalog) -> WeightsPlan | None:
    """Where a blob can be had again; None: nobody knows."""
    recipes = recipes_of(blob.sha256, catalog)
    named = [s.reference for recipe in recipes for s in recipe.weights if s.sha256 == blob.sha256]
    sources = tuple(dict.fromkeys([*named, *blob.references]))
    return WeightsPlan(sources=sources, sha256=blob.sha256, bytes=blob.bytes) if sources else None


def pull_name(blob: Blob, catalog: Catalog) -> str | None:
    """What to give to ``model pull`` for this blob; None: nobody knows."""
    recipes = recipes_of(blob.sha256, catalog)
    return recipes[0].id if recipes else next(iter(blob.references), None)


def _digest_of(name: str, cache: Cache, catalog: Catalog) -> str | None:
    try:
        plan = weights_named(name, catalog)
    except UnknownModel:
        if any(name == blob.name for blob in cache.blobs()):
            return None
        raise
    return plan.sha256 or _remembered(plan.sources, cache)


def _remembered(sources: Iterable[str], cache: Cache) -> str | None:
    for source in sources:
        try:
            sha256 = cache.remembered(str(parse(source)))
        except InvalidReference:
            continue  # a reference of a newer Outrider
        if sha256 is not None:
            return sha256
    return None


def _live(view: Mapping[str, Any]) -> set[int]:
    numbers = {int(replica["revision"]) for replica in view["replicas"]}
    wanted = view["revision"]
    return numbers | ({int(wanted["number"])} if wanted and view["desired"] == "running" else set())


def _digests(weights: Mapping[str, Any], cache: Cache) -> list[str]:
    sha256 = weights.get("sha256") or _remembered(weights.get("sources") or (), cache)
    return [str(sha256)] if sha256 else []


def refuse_live(blob: Blob, known: Uses | None) -> None:
    """Raises Conflict if a live endpoint uses a blob, or if nobody can say."""
    remedy = "Say --force to remove it all the same."
    if known is None and running_unseen():
        raise _conflict(blob, "replicas run and no controller says what they use", f"Start it: outrider up. {remedy}")
    live = [use for use in (known or {}).get(blob.sha256, ()) if use.live]
    if live:
        names = sorted({use.endpoint for use in live})
        why = f"{' and '.join(names)} {'uses' if len(names) == 1 else 'use'} it"
        raise _conflict(blob, why, f"Stop it first: outrider endpoint stop {names[0]}. {remedy}")


def _conflict(blob: Blob, why: str, remedy: str) -> Conflict:
    return Conflict(f"{blob.name} was not removed", why=why, remedy=remedy, details={"sha256": blob.sha256})
