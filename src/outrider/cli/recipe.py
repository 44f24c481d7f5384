"""``recipe``: what endpoints are planned from. Read from this machine's catalog; nothing needs to run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outrider.cli import linting
from outrider.cli.candidates import recipe_ids
from outrider.cli.terminal import show_json, show_table
from outrider.recipes.library import load_catalog

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="See and check the recipes that endpoints are planned from.",
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_recipes(as_json: Json = False) -> None:
    """List every recipe with its provenance."""
    recipes = load_catalog().all()
    if as_json:
        show_json([recipe.model_dump(mode="json") for recipe in recipes])
        return
    columns = ("recipe", "model", "engine", "hardware", "provenance")
    rows = [(r.id, r.model.id, r.engine.name, r.hardware.gpu or r.hardware.kind, r.provenance.status) for r in recipes]
    show_table(columns, rows)


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
