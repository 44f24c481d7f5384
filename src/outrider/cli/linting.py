"""``recipe lint``: reads the files, and shows what :func:`outrider.recipes.lint.lint` finds as ``file:line: …``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.text import Text

from outrider.cli.terminal import console, say, show_json
from outrider.cli.text import clean
from outrider.errors import InvalidRecipe, UsageError
from outrider.recipes.library import SHIPPED, own_directories, recipe_files
from outrider.recipes.lint import ERROR, Finding, RecipeFile
from outrider.recipes.lint import lint as find

_STYLES = {"error": "red", "warning": "yellow"}


def lint(paths: Sequence[Path], *, as_json: bool) -> None:
    """Look at files and directories.

    Raises:
        InvalidRecipe: something is an error; with ``as_json`` its object is printed here, the findings in it.
        UsageError: a path is not there, or a directory holds no recipe.
    """
    files = _gather(paths)
    catalog = [path for directory in (*own_directories(os.environ), SHIPPED) for path in recipe_files(directory)]
    ranks = {path.resolve(): number for number, path in reversed(list(enumerate(catalog)))}
    given = {path.resolve() for path in files}
    found = find(
        [_read(path, ranks.get(path.resolve(), -1)) for path in files],
        [_read(path, ranks[path.resolve()]) for path in catalog if path.resolve() not in given],
        today=datetime.now(UTC).date(),
    )
    errors = sum(finding.severity == ERROR for finding in found)
    refusal = None
    if errors:
        bad = len({finding.file for finding in found if finding.severity == ERROR})
        what = f"{_count(errors, 'error')} in {bad} of {_count(len(files), 'file')}"
        refusal = InvalidRecipe(what, remedy="docs/guides/recipes.md says what a recipe holds.")
    if as_json:
        show_json(
            (refusal.problem() if refusal else {}) | {"files": len(files), "findings": [asdict(f) for f in found]}
        )
        raise typer.Exit(refusal.exit_code if refusal else 0)
    for finding in found:
        _show(finding)
    if refusal:
        raise refusal
    warnings = f", {_count(len(found), 'warning')}" if found else ""
    say(f"{_count(len(files), 'file')} checked: no error{warnings}")


def _gather(paths: Sequence[Path]) -> list[Path]:
    files: dict[Path, Path] = {}
    for path in paths:
        inside = recipe_files(path) if path.is_dir() else [path]
        if not inside:
            raise UsageError(f"{path} holds no recipe", why="it has no *.yaml", remedy="Name a file or directory.")
        if not path.exists():
            raise UsageError(f"There is no {path}", remedy="Name a file or directory.")
        for file in inside:
            files.setdefault(file.resolve(), file)
    return list(files.values())


def _read(path: Path, rank: int) -> RecipeFile:
    try:
        return RecipeFile(str(path), path.read_text(encoding="utf-8"), rank)
    except (OSError, UnicodeDecodeError) as error:
        return RecipeFile(str(path), None, rank, f"cannot be read: {str(error).splitlines()[0]}")


def _show(finding: Finding) -> None:
    place = clean(finding.file) + (f":{finding.line}" if finding.line else "")
    label = (finding.severity, _STYLES[finding.severity])
    text = f": {clean(finding.field)}: {clean(finding.message)}"
    console.print(Text.assemble(f"{place}: ", label, text), soft_wrap=True)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
