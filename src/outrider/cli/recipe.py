"""``recipe``: what endpoints are planned from. Read from this machine's catalog; nothing needs to run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from outrider.cli import importing, linting
from outrider.cli.candidates import model_ids, recipe_ids
from outrider.cli.terminal import coloured, console, say, show_json, show_table
from outrider.errors import UnknownModel, UsageError
from outrider.recipes.library import counts, load_catalog
from outrider.recipes.schema import STATUSES, Recipe

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="See, check and import the recipes of endpoints.",
)
app.add_typer(importing.app, name="import")
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_recipes(
    model: Annotated[str | None, typer.Option(help="Only those of this model.", autocompletion=model_ids)] = None,
    provenance: Annotated[
        str | None, typer.Option(help="Only these: measured, published, estimated or untested.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List recipes, and who has tested each on its hardware."""
    catalog = load_catalog()
    if provenance is not None and provenance not in STATUSES:
        raise UsageError(f"There is no provenance {provenance!r}", remedy=f"Say one of {', '.join(STATUSES)}.")
    of_model = catalog.all() if model is None else catalog.for_model(model)
    if model is not None and not of_model:
        near = catalog.nearest_models(model)
        raise UnknownModel(f"No recipe serves {model!r}", remedy=f"Did you mean {near[0]}?" if near else "")
    recipes = [recipe for recipe in of_model if provenance in (None, recipe.provenance.status)]
    if as_json:
        show_json([recipe.model_dump(mode="json") for recipe in recipes])
        return
    columns = ("recipe", "model", "hardware", "engine", "provenance")
    rows = [(r.id, r.model.id, r.hardware.title, r.engine.name, r.provenance.status) for r in recipes]
    show_table(columns, rows)
    say()
    _show_stale(recipes, datetime.now(UTC).date())
    _show_counts(recipes)


def _show_counts(recipes: Sequence[Recipe]) -> None:
    """``107 recipes: 5 measured, …``, the untested ones in red."""
    found = counts(recipes)
    parts: list[Text | str] = [f"{len(recipes)} recipes: "]
    for number, (status, many) in enumerate(found.items()):
        parts += [", " if number else "", coloured(status, f"{many} {status}") if many else f"0 {status}"]
    console.print(Text.assemble(*parts), soft_wrap=True)


def _show_stale(recipes: Sequence[Recipe], today: date) -> None:
    """Those whose day to be measured again is over."""
    if over := [recipe.id for recipe in recipes if recipe.stale_after is not None and recipe.stale_after < today]:
        say(f"stale, somebody should measure them again: {', '.join(over)}", "yellow")


@app.command()
def show(recipe: Annotated[str, typer.Argument(autocompletion=recipe_ids)], as_json: Json = False) -> None:
    """Show one recipe whole."""
    found = load_catalog().get(recipe).model_dump(mode="json")
    if as_json:
        show_json(found)
        return
    import yaml

    print(yaml.safe_dump(found, sort_keys=False, allow_unicode=True), end="")


@app.command()
def lint(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|DIR...", help="Files, or directories of *.yaml.")],
    as_json: Json = False,
) -> None:
    """Check recipe files: every problem of every file. Exits with 2 if one is an error, with 0 on warnings."""
    linting.lint(paths, as_json=as_json)
