"""What the files say that a spec itself names: weights, drafter, adapters. Only files of this machine are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from outrider.app.server import Progress
from outrider.errors import WeightsUnavailable
from outrider.models.adapter import AdapterFacts, read_adapter
from outrider.models.cache import Cache
from outrider.models.digests import size
from outrider.models.drafter import DrafterFacts, read_drafter
from outrider.models.facts import read_facts
from outrider.models.sources import PathSource, parse
from outrider.models.tokenizer import TokenizerFacts, read_tokenizer
from outrider.models.weights import Weights
from outrider.recipes.bound import Bound
from outrider.recipes.library import Catalog
from outrider.recipes.weights import weights_of
from outrider.spec.drafter import WORDS
from outrider.spec.endpoint import Endpoint
from outrider.spec.facts import ModelFacts


@dataclass(frozen=True, slots=True)
class AdapterFiles:
    """An adapter that lies here: its facts, its directory's digest and size."""

    facts: AdapterFacts
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Files:
    """What was read beside the model's facts.

    Attributes:
        tokenizer: of the endpoint's own weights; None: it names none, or they have none, or are not here.
        catalog_tokenizer: of the catalog model's weights, where these are here.
        drafter: of the drafter that the endpoint names; None: it names none, or it is not here.
        adapters: by name; those that are not here are left out.
        bound: drafters that somebody bound to targets; ``drafter: auto`` looks for one here.
    """

    tokenizer: TokenizerFacts | None = None
    catalog_tokenizer: TokenizerFacts | None = None
    drafter: DrafterFacts | None = None
    adapters: Mapping[str, AdapterFiles] = field(default_factory=dict)
    bound: Bound = field(default_factory=dict)


NONE = Files()
"""The endpoint names no file, or none was looked at."""


def facts_of_spec(endpoint: Endpoint) -> ModelFacts | None:
    """Facts of the ``weights`` or ``model`` that is a reference, where its files are here; else None.

    Raises:
        InvalidReference, WeightsUnreadable.
    """
    reference = endpoint.weights or endpoint.model
    if endpoint.weights is None and not reference.startswith("path:"):
        return None
    source = parse(reference)
    path = source.path if isinstance(source, PathSource) else _here(reference)
    return None if path is None else read_facts(path)


def files_of_spec(endpoint: Endpoint, catalog: Catalog, bound: Bound | None = None) -> Files:
    """Everything else that a spec names and that is here.

    Args:
        bound: drafters of the registry, by what they are bound to; a digest stands for the endpoint's own weights, too.

    Raises:
        InvalidReference, WeightsUnreadable, AdapterUnfit.
        WeightsUnavailable: a path that is not there.
    """
    named = endpoint.drafter.source
    drafter = None if named in WORDS else _here(named)
    checks = endpoint.weights is not None or named not in WORDS
    return Files(
        tokenizer=_tokenizer(_here(endpoint.weights or _path_model(endpoint))),
        catalog_tokenizer=_catalog_tokenizer(endpoint, catalog) if checks else None,
        drafter=None if drafter is None else read_drafter(drafter),
        adapters={name: found for name, one in endpoint.adapters.items() if (found := _adapter(one)) is not None},
        bound=_bound(endpoint, bound or {}),
    )


def _bound(endpoint: Endpoint, bound: Bound) -> Bound:
    """The bound drafters, and that of the endpoint's own weights by their reference; a digest costs reading them."""
    path = _here(endpoint.weights) if bound and endpoint.weights and endpoint.drafter.source == "auto" else None
    if path is None or endpoint.weights is None:
        return bound
    drafter = bound.get(Cache.from_environment().memory.digest(path, _quiet))
    return bound if drafter is None else {**bound, endpoint.weights: drafter}


def _path_model(endpoint: Endpoint) -> str | None:
    return endpoint.model if endpoint.model.startswith("path:") else None


def _here(reference: str | None) -> Path | None:
    """Where a reference's files lie on this machine; None: they would have to be fetched."""
    if reference is None:
        return None
    source = parse(reference)
    if isinstance(source, PathSource) and not source.path.exists():
        raise WeightsUnavailable(f"Nothing lies at {source.path}", remedy="Check the path; nothing was changed.")
    return Weights(reference).cached(_quiet)


def _tokenizer(path: Path | None) -> TokenizerFacts | None:
    return None if path is None else read_tokenizer(path)


def _catalog_tokenizer(endpoint: Endpoint, catalog: Catalog) -> TokenizerFacts | None:
    """From the first recipe whose weights are here; a path that a recipe names may be gone."""
    for recipe in catalog.for_model(endpoint.model):
        planned = weights_of(recipe)
        path = Weights(*planned.sources, sha256=planned.sha256).cached(_quiet)
        if path is not None and (found := read_tokenizer(path)) is not None:
            return found
    return None


def _adapter(reference: str) -> AdapterFiles | None:
    path = _here(reference)
    if path is None:
        return None
    facts = read_adapter(path)
    return AdapterFiles(facts, Cache.from_environment().memory.digest(path, _quiet), size(path))


def _quiet(progress: Progress) -> None:
    """Nothing is fetched, so nobody waits."""
