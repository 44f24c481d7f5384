"""Which files a person means who names a model, a recipe or a reference."""

from __future__ import annotations

from outrider.errors import UnknownModel, UsageError
from outrider.models.sources import parse
from outrider.recipes.library import Catalog
from outrider.recipes.plan import WeightsPlan
from outrider.recipes.schema import Recipe

_SCHEMES = ("hf:", "path:", "package:")


def weights_of(recipe: Recipe) -> WeightsPlan:
    """The recipe's first file, and every source of the same file."""
    first = recipe.weights[0]
    # One digest stands for one file: a source that holds another file cannot stand in for it.
    same = tuple(source.reference for source in recipe.weights if source.sha256 == first.sha256)
    return WeightsPlan(sources=same, sha256=first.sha256, bytes=first.bytes)


def weights_named(name: str, catalog: Catalog) -> WeightsPlan:
    """The files meant by a weights reference, a recipe's id, or a model's id or alias.

    A reference that a recipe names keeps the digest which that recipe pins.

    Raises:
        InvalidReference: it begins like a reference and is none.
        UsageError: the model's recipes use different files; they are named.
        UnknownModel: no recipe and no model of this name.
    """
    if name.startswith(_SCHEMES):
        parse(name)
        named = (source for recipe in catalog.all() for source in recipe.weights if source.reference == name)
        pinned = next(named, None)
        return WeightsPlan(
            sources=(name,), sha256=pinned.sha256 if pinned else None, bytes=pinned.bytes if pinned else None
        )
    recipes = [recipe for recipe in catalog.all() if recipe.id == name] or catalog.for_model(name)
    plans = {plan.sha256 or plan.sources[0]: plan for plan in map(weights_of, recipes)}
    if len(plans) > 1:
        raise UsageError(
            f"The recipes of {name} use {len(plans)} different files",
            why=", ".join(recipe.id for recipe in recipes),
            remedy="Name the recipe instead of the model.",
        )
    for plan in plans.values():
        return plan
    near = catalog.nearest_models(name)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    raise UnknownModel(
        f"No recipe has or serves {name!r}",
        remedy=f"{hint}See: outrider recipe list, or name the weights: hf:org/name@revision#file",
        details={"nearest": near[0] if near else None},
    )


def recipes_of(sha256: str, catalog: Catalog) -> list[Recipe]:
    """The recipes that name the file of a digest."""
    return [recipe for recipe in catalog.all() if any(source.sha256 == sha256 for source in recipe.weights)]
