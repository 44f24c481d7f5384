"""What a shell offers for a word that is begun: names that exist now. Nothing is offered where anything fails.

Imports happen inside, because every command refers to these functions and only a shell calls them.
"""

from __future__ import annotations

from collections.abc import Callable

_PATIENCE = 1.0
"""Seconds that a controller may take to answer while somebody waits for the Tab key."""


def endpoint_names(incomplete: str) -> list[str]:
    """Names of the endpoints that the controller knows."""
    return _begun(incomplete, _endpoint_names)


def key_names(incomplete: str) -> list[str]:
    """Names of the keys that are not revoked."""
    return _begun(incomplete, _key_names)


def drafter_names(incomplete: str) -> list[str]:
    """Names of the drafters in the registry."""
    return _begun(incomplete, _drafter_names)


def recipe_ids(incomplete: str) -> list[str]:
    """Ids of the recipes in this machine's catalog."""
    return _begun(incomplete, _recipe_ids)


def model_ids(incomplete: str) -> list[str]:
    """Ids of the models that have a recipe here."""
    return _begun(incomplete, _model_ids)


def pullable(incomplete: str) -> list[str]:
    """Models and recipes whose weights can be pulled."""
    return _begun(incomplete, _pullable)


def cached(incomplete: str) -> list[str]:
    """The blobs in this machine's cache: the recipe that each belongs to, else the beginning of its digest."""
    return _begun(incomplete, _cached)


def _begun(incomplete: str, look: Callable[[], list[str]]) -> list[str]:
    try:
        return [name for name in look() if name.startswith(incomplete)]
    except Exception:
        return []  # a message would land in the middle of the line that is being typed


def _endpoint_names() -> list[str]:
    from outrider.client.http import Client

    with Client(timeout=_PATIENCE) as client:
        return [view["name"] for view in client.endpoints()]


def _key_names() -> list[str]:
    from outrider.client.http import Client

    with Client(timeout=_PATIENCE) as client:
        issued = client.keys()
    return [key["name"] for key in issued if key["revoked_at"] is None]


def _drafter_names() -> list[str]:
    from outrider.client.http import Client

    with Client(timeout=_PATIENCE) as client:
        return [drafter["name"] for drafter in client.drafters()]


def _recipe_ids() -> list[str]:
    from outrider.recipes.library import load_catalog

    return [recipe.id for recipe in load_catalog().all()]


def _model_ids() -> list[str]:
    from outrider.recipes.library import load_catalog

    return sorted({recipe.model.id for recipe in load_catalog().all()})


def _pullable() -> list[str]:
    from outrider.recipes.library import load_catalog

    recipes = load_catalog().all()
    return [*sorted({recipe.model.id for recipe in recipes}), *(recipe.id for recipe in recipes)]


def _cached() -> list[str]:
    from outrider.models.cache import Cache
    from outrider.recipes.library import load_catalog
    from outrider.recipes.weights import recipes_of

    catalog = load_catalog()
    named = [(blob.sha256[:12], recipes_of(blob.sha256, catalog)) for blob in Cache.from_environment().blobs()]
    return [recipes[0].id if recipes else digest for digest, recipes in named]
