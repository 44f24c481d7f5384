"""Whether an engine takes the flags that a recipe and an endpoint set. Pure."""

from __future__ import annotations

from outrider.errors import InvalidSpec, Problem
from outrider.recipes.flags import FlagValue, complaint
from outrider.recipes.schema import Recipe
from outrider.spec.endpoint import Endpoint


def wrong_flags(endpoint: Endpoint, recipe: Recipe) -> list[Problem]:
    """Every flag of the recipe under the endpoint's own that its engine cannot take."""
    values: dict[str, FlagValue] = {name: flag.value for name, flag in recipe.flags.items()} | dict(endpoint.flags)
    found = (_problem(endpoint, recipe, name, value) for name, value in values.items())
    return [problem for problem in found if problem is not None]


def refusal(recipe: Recipe, wrong: list[Problem]) -> InvalidSpec:
    """The error that names them all."""
    return InvalidSpec(f"{recipe.engine.name} cannot take these flags", wrong)


def _problem(endpoint: Endpoint, recipe: Recipe, name: str, value: FlagValue) -> Problem | None:
    field = f"flags.{name}"
    found = complaint(recipe.engine.name, name, value)
    most = recipe.limits.max_context
    if found is None and name == "context" and most is not None and int(value) > most:
        found = f"the recipe goes to {most:,} tokens", None
    if found is None:
        return None
    allowed, near = found
    whose = "" if name in endpoint.flags else f" (in the recipe {recipe.id})"
    hint = f" (did you mean {near!r}?)" if near else ""
    message = f"{field} = {value!r}: {allowed}{hint}{whose}"
    return Problem(field=field, value=repr(value), allowed=allowed, nearest=near, message=message)
