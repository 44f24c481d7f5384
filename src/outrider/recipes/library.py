"""The recipes known here: the user's own directories first, then what ships in ``catalog/``."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path

import yaml
from pydantic import ValidationError

from outrider.errors import InvalidRecipe, Problem, RecipeNotFound
from outrider.recipes.schema import Recipe
from outrider.spec.problems import problems

SHIPPED = Path(__file__).with_name("catalog")


class Catalog:
    """Recipes by id and by model; ``directories`` says where they came from."""

    def __init__(self, recipes: Sequence[Recipe], directories: Sequence[str]) -> None:
        self._recipes = {recipe.id: recipe for recipe in reversed(recipes)}
        self.directories = tuple(directories)

    def all(self) -> list[Recipe]:
        """All, by id."""
        return [self._recipes[key] for key in sorted(self._recipes)]

    def get(self, identifier: str) -> Recipe:
        """One. Raises RecipeNotFound with the nearest id."""
        if identifier not in self._recipes:
            near = difflib.get_close_matches(identifier, self._recipes, 1)
            hint = f"Did you mean {near[0]!r}?" if near else "See them with: outrider recipe list"
            raise RecipeNotFound(f"No recipe {identifier!r}", remedy=hint)
        return self._recipes[identifier]

    def for_model(self, model: str) -> list[Recipe]:
        """Those of a model, by id or alias, whatever the case."""
        wanted = model.lower()
        return [r for r in self.all() if wanted in {name.lower() for name in (r.model.id, *r.model.aliases)}]

    def nearest_model(self, model: str) -> str | None:
        """The known model whose name is nearest."""
        names = {name.lower(): r.model.id for r in self.all() for name in (r.model.id, *r.model.aliases)}
        near = difflib.get_close_matches(model.lower(), names, 1)
        return names[near[0]] if near else None


def load_catalog(extra: Sequence[Path] | None = None) -> Catalog:
    """Read every ``*.yaml``; ``extra`` None: ``OUTRIDER_RECIPES`` (colon-separated) and ``~/.config/outrider/recipes``.

    Raises:
        InvalidRecipe: a file breaks the schema; it and every bad field are named.
    """
    own = _own_directories() if extra is None else list(extra)
    directories = [*own, SHIPPED]
    recipes = [
        recipe for directory in directories for path in sorted(directory.glob("*.yaml")) for recipe in read(path)
    ]
    return Catalog(recipes, [str(directory) for directory in own] + ["the catalog that ships with Outrider"])


def read(path: Path) -> list[Recipe]:
    """The recipes of one file, one a document. Raises InvalidRecipe."""
    found = []
    try:
        documents = [document for document in yaml.safe_load_all(path.read_text()) if document is not None]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidRecipe(f"{path.name} cannot be read", why=str(error).replace("\n", " ")) from error
    for document in documents:
        try:
            found.append(Recipe.model_validate(document))
        except ValidationError as error:
            bad: list[Problem] = problems(Recipe, error.errors())
            raise InvalidRecipe(
                f"{path.name} is no recipe",
                why="; ".join(problem["message"] for problem in bad),
                remedy="Correct the fields; docs/guides/recipes.md has the schema.",
                details={"problems": [dict(problem) for problem in bad]},
            ) from error
    return found


def _own_directories() -> list[Path]:
    named = [Path(part).expanduser() for part in os.environ.get("OUTRIDER_RECIPES", "").split(":") if part]
    return [*named, Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "outrider/recipes"]
