"""``recipe import``: recipes of the vLLM project and of SGLang's cookbook as recipes of one's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.cli.terminal import say, show_json
from outrider.errors import InvalidInput, InvalidRecipe, Unavailable, UsageError

if TYPE_CHECKING:
    from outrider.recipes.imported import Imported

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Make recipes of those of the vLLM project or of SGLang's cookbook.",
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write; it must not exist. Default: print.")
]
Version = Annotated[
    str | None,
    typer.Option(help="Of the engine, where the source names none; default: the newest whose flags are known."),
]
_LARGEST = 8 * 2**20
"""Bytes of a file that are read: the largest of these have some hundred thousand."""
_PATIENCE = 30.0
"""Seconds for an address to answer."""


@app.command()
def vllm(
    source: Annotated[
        str, typer.Argument(metavar="FILE|URL", help="https://recipes.vllm.ai/ORG/MODEL.json, or its file.")
    ],
    output: Output = None,
    engine_version: Version = None,
    as_json: Json = False,
) -> None:
    """Import the command that the vLLM project recommends for a model. What has no place in a recipe is listed."""
    from outrider.recipes.vllm_recipes import read_vllm

    try:
        data = json.loads(_text(source))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{source} is no JSON", why=str(error)) from error
    url = source if _is_url(source) else None
    version = engine_version or _newest("vllm")
    _finish(read_vllm(data, day=datetime.now(UTC).date(), version=version, url=url), output, as_json=as_json)


@app.command()
def sglang(
    source: Annotated[str, typer.Argument(metavar="FILE|URL", help="MODEL.jsx of the cookbook.")],
    benchmarks: Annotated[
        str | None, typer.Option(help="FILE or URL of its MODEL-benchmarks.jsx, for figures.")
    ] = None,
    output: Output = None,
    engine_version: Version = None,
    as_json: Json = False,
) -> None:
    """Import every cell of a file of SGLang's cookbook. What has no place in a recipe is listed."""
    from outrider.recipes.sglang_cookbook import read_sglang

    found = read_sglang(
        _text(source),
        day=datetime.now(UTC).date(),
        version=engine_version or _newest("sglang"),
        benchmarks=_text(benchmarks) if benchmarks else None,
        url=source if _is_url(source) else None,
    )
    _finish(found, output, as_json=as_json)


def _newest(engine: str) -> str:
    from outrider.engines.flags import flags

    return flags(engine).versions[-1]


def _is_url(source: str) -> bool:
    return source.startswith("https://")


def _text(source: str) -> str:
    if source.startswith("http://"):
        raise UsageError(f"{source} could be changed on its way", remedy="Use https://")
    try:
        raw = _fetch(source) if _is_url(source) else Path(source).read_bytes()
        if len(raw) > _LARGEST:
            raise InvalidInput(f"{source} is larger than {_LARGEST // 2**20} MiB", remedy="Name a recipe's file.")
        return raw.decode("utf-8")
    except OSError as error:
        raise UsageError(f"{source} cannot be read", why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{source} is no UTF-8 text") from error


def _fetch(url: str) -> bytes:
    import httpx

    try:
        with httpx.stream("GET", url, timeout=_PATIENCE, follow_redirects=True) as response:
            response.raise_for_status()
            raw = b""
            for chunk in response.iter_bytes():
                raw += chunk
                if len(raw) > _LARGEST:
                    break
            return raw
    except httpx.HTTPError as error:
        raise Unavailable(
            f"{url} cannot be had",
            why=str(error) or type(error).__name__,
            remedy="Save it to a file where there is a network, and name the file.",
        ) from error


def _finish(found: Imported, output: Path | None, *, as_json: bool) -> None:
    """Lint, then write. Raises InvalidRecipe for what has errors, UsageError for a file that is there."""
    import yaml

    documents = [yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True, width=118) for recipe in found.recipes]
    text = "---\n".join(documents)
    _check(text)
    if output is not None:
        try:
            with output.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError as error:
            raise UsageError(f"{output} is there already", remedy="Name another file, or move it away.") from error
        except OSError as error:
            raise UsageError(f"{output} cannot be written", why=error.strerror or str(error)) from error
    if as_json:
        recipes = [json.loads(json.dumps(recipe, default=str)) for recipe in found.recipes]
        written = None if output is None else str(output)
        show_json({"recipes": recipes, "output": written, "unread": found.unread, "left_out": found.left_out})
        return
    if output is None:
        print(text, end="")
    _report(found, output)


def _check(text: str) -> None:
    from outrider.recipes.lint import ERROR, RecipeFile, lint

    found = lint([RecipeFile("(imported)", text, -1)], today=datetime.now(UTC).date())
    if errors := [finding for finding in found if finding.severity == ERROR]:
        raise InvalidRecipe(
            "What was imported is no recipe yet, so nothing was written",
            why="; ".join(f"{finding.recipe}: {finding.field}: {finding.message}" for finding in errors[:5]),
            remedy="Name the version of the engine that it was made for (--engine-version), or correct the source.",
            details={"findings": [f"{f.recipe}: {f.field}: {f.message}" for f in errors]},
        )


def _report(found: Imported, output: Path | None) -> None:
    statuses = [recipe["provenance"]["status"] for recipe in found.recipes]
    said = ", ".join(f"{statuses.count(status)} {status}" for status in ("published", "untested"))
    where = f" into {output}" if output else ""
    _say(f"{len(statuses)} imported{where}: {said}", output)
    for title, lines in (("no place in a recipe", found.unread), ("left out of the command", found.left_out)):
        if lines:
            _say(f"  {title}: {', '.join(_once(lines))}", output)


def _once(lines: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(lines))


def _say(text: str, output: Any) -> None:
    """To standard error where the recipes themselves go to standard output."""
    if output is None:
        typer.echo(text, err=True)
    else:
        say(text)
