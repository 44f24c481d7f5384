"""The recipes known here: the user's own directories first, then what ships in ``catalog/``."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from outrider.errors import InvalidRecipe, InvalidSpec, Problem, RecipeNotFound
from outrider.recipes.schema import STATUSES, Recipe, Status
from outrider.spec.documents import read_documents
from outrider.spec.problems import problems

SHIPPED = Path(__file__).with_name("catalog")
"""The directory of the recipes that ship with Outrider."""


class Catalog:
    """Recipes by id and by model. Of two recipes with one id the first wins.

    Args:
        recipes: in the order of their directories.
        directories: where they came from, in words for people.
    """

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

    def nearest_models(self, model: str) -> list[str]:
        """Up to three known models whose names, or last parts of names, are near; the nearest first."""
        names = {name.lower(): r.model.id for r in self.all() for name in (r.model.id, *r.model.aliases)}
        names |= {r.model.id.rpartition("/")[2].lower(): r.model.id for r in self.all()}
        near = difflib.get_close_matches(model.lower(), names, 5)
        near += difflib.get_close_matches(model.rpartition("/")[2].lower(), names, 5)
        return list(dict.fromkeys(names[name] for name in near))[:3]


def load_catalog(extra: Sequence[Path] | None = None) -> Catalog:
    """Read every ``*.yaml``; ``extra`` None: ``OUTRIDER_RECIPES`` (colon-separated) and ``~/.config/outrider/recipes``.

    Raises:
        InvalidRecipe: a file breaks the schema (it and every bad field are named), or a named directory is missing.
    """
    own = own_directories(os.environ) if extra is None else list(extra)
    for directory in own[:-1] if extra is None else own:  # the last, in the user's configuration, may be missing
        if not directory.is_dir():
            raise InvalidRecipe(
                f"There is no directory of recipes {directory}",
                remedy="Make it, or correct OUTRIDER_RECIPES (directories, separated by colons).",
            )
    recipes = [recipe for directory in own for path in recipe_files(directory) for recipe in read(path)]
    return Catalog(
        [*recipes, *shipped()], [str(directory) for directory in own] + ["the catalog that ships with Outrider"]
    )


def counts(recipes: Iterable[Recipe]) -> dict[Status, int]:
    """How many there are of each provenance, the best first; none left out."""
    statuses = [recipe.provenance.status for recipe in recipes]
    return {status: statuses.count(status) for status in STATUSES}


@cache
def shipped() -> tuple[Recipe, ...]:
    """The recipes that ship with Outrider, read once a process, with libyaml where it is there.

    Tests hold these files to what :func:`read` asks, so that nobody has to wait for its checks.
    """
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    texts = (path.read_text(encoding="utf-8") for path in recipe_files(SHIPPED))
    return tuple(Recipe.model_validate(data) for text in texts for data in yaml.load_all(text, loader))


def recipe_files(directory: Path) -> list[Path]:
    """The files of a directory that hold recipes, in the order they are searched."""
    return sorted(directory.glob("*.yaml"))


def read(path: Path) -> list[Recipe]:
    """The recipes of one file, one a document. Raises InvalidRecipe with every bad field of every document."""
    try:
        documents = read_documents(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise InvalidRecipe(f"{path} cannot be read", why=why) from error
    except InvalidSpec as error:
        raise _invalid(path, error.problems) from error
    found: list[Recipe] = []
    bad: list[Problem] = []
    for document in documents:
        try:
            found.append(Recipe.model_validate(document))
        except ValidationError as error:
            whose = f"{document['id']}: " if isinstance(document.get("id"), str) and len(documents) > 1 else ""
            bad += [Problem({**p, "message": f"{whose}{p['message']}"}) for p in problems(Recipe, error.errors())]
    ids = [recipe.id for recipe in found]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        bad.append(Problem(field="id", value=twice[0], message=f"id = {twice[0]!r}: stands twice in the file"))
    if bad:
        raise _invalid(path, bad)
    return found


def own_directories(environ: Mapping[str, str]) -> list[Path]:
    """Where users keep recipes: ``OUTRIDER_RECIPES`` in its order, then ``outrider/recipes`` of their configuration."""
    named = [Path(part).expanduser() for part in environ.get("OUTRIDER_RECIPES", "").split(":") if part]
    configured = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
    return [*named, Path(configured) / "outrider/recipes"]


def _invalid(path: Path, bad: Sequence[Problem]) -> InvalidRecipe:
    return InvalidRecipe(
        f"{path} holds no valid recipe",
        why="; ".join(problem["message"] for problem in bad),
        remedy="Correct these fields, or move the file away; docs/guides/recipes.md has the schema.",
        details={"file": str(path), "problems": [dict(problem) for problem in bad]},
    )
