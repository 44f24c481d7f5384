"""``drafter``: make draft models, measure them, and say which drafts for which target.

What needs torch is imported when it is used. Only ``list``, ``use`` and ``rm`` need a controller.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from outrider.cli import drafting
from outrider.cli.candidates import drafter_names, endpoint_names, model_ids
from outrider.cli.terminal import moment, say, show_json, show_table
from outrider.cli.text import size
from outrider.errors import UsageError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Make, measure, convert and use draft models.",
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Drafter = Annotated[str, typer.Argument(metavar="DRAFTER", help="Its directory or GGUF file, or outrider:NAME.")]
_REFERENCES = ("path:", "hf:", "outrider:")
_SHOWN = 12

app.command()(drafting.data)
app.command()(drafting.train)
app.command("eval")(drafting.evaluate)


@app.command()
def inspect(
    drafter: Drafter,
    target: Annotated[
        str | None, typer.Option(help="The model: a path, reference, model or recipe.", autocompletion=model_ids)
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what a drafter is, what is wrong with it, and which engines load it. Exits with 2 if it is unfit."""
    from outrider.cli import inspection

    inspection.inspect(drafter, target, as_json=as_json)


@app.command()
def export(
    drafter: Drafter,
    output: Annotated[Path, typer.Option("--output", "-o", help="File or directory to write; it must not exist.")],
    to: Annotated[str, typer.Option("--format", help="gguf, speculators, or z-lab.")] = "gguf",
    target: Annotated[
        str | None, typer.Option(help="The model: a path, reference, model or recipe.", autocompletion=model_ids)
    ] = None,
    quantisation: Annotated[str, typer.Option("--type", help="Of a GGUF's matrices: Q8_0 or F16.")] = "Q8_0",
    as_json: Json = False,
) -> None:
    """Convert a drafter: to GGUF for llama.cpp, to speculators' format and back to z-lab's."""
    from outrider.cli import exporting

    exporting.export(drafter, output, to=to, target=target, quantisation=quantisation, as_json=as_json)


@app.command()
def add(
    drafter: Drafter,
    name: Annotated[str | None, typer.Option(help="What to call it; by default as its card or directory does.")] = None,
    as_json: Json = False,
) -> None:
    """Take a drafter into the registry and its weights into the cache, without using it yet."""
    from outrider.client.http import Client

    with Client() as client:
        added = client.add_drafter(_reference(drafter) or f"path:{Path(drafter).absolute()}", name)
    if as_json:
        show_json(added)
    else:
        say(f"{added['name']} is in the registry: {size(added['bytes'])}, {added['sha256'][:_SHOWN]} in the cache")


@app.command("list")
def list_drafters(as_json: Json = False) -> None:
    """List the registry: what each drafter is, how good, and whose it is."""
    from outrider.client.http import Client

    with Client() as client:
        found = client.drafters()
    if as_json:
        show_json(found)
        return
    columns = ("drafter", "kind", "parent", "τ", "modes", "size", "drafts for", "since (UTC)")
    show_table(columns, [_row(one) for one in found], empty="no drafters; take one in: outrider drafter use PATH")


@app.command()
def use(
    drafter: Annotated[
        str, typer.Argument(metavar="NAME|PATH", help="In the registry, or to take in.", autocompletion=drafter_names)
    ],
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", "-e", help="Whose target.", autocompletion=endpoint_names)
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Or the target: a reference, model or recipe.", autocompletion=model_ids)
    ] = None,
    name: Annotated[str | None, typer.Option(help="What to call a drafter that is taken in.")] = None,
    as_json: Json = False,
) -> None:
    """Bind a drafter to its target's weights, so that drafter: auto takes it; an endpoint gets a revision with it."""
    from outrider.client.http import Client

    if (endpoint is None) == (target is None):
        raise UsageError("Whose drafter shall it be?", remedy="Say --endpoint NAME or --target MODEL, one of the two.")
    with Client() as client:
        reference = _reference(drafter)
        if reference is None:
            used = client.use_drafter(drafter, endpoint=endpoint, target=target)
        else:
            used = client.add_and_use_drafter(reference, name, endpoint=endpoint, target=target)
    if as_json:
        show_json(used)
        return
    say(f"{used['drafter']} drafts for the weights {used['target'][:_SHOWN]}…")
    for warning in used["warnings"]:
        say(f"  perhaps wrong: {warning['what']}", "yellow")
    if used["endpoint"]:
        say(f"  {used['endpoint']} is at revision {used['revision']}: {used['planned']}; {used['reason']}")


@app.command()
def rm(
    drafter: Annotated[str, typer.Argument(metavar="NAME", autocompletion=drafter_names)], as_json: Json = False
) -> None:
    """Forget a drafter. Its weights stay in the cache, so that what runs with it goes on."""
    from outrider.client.http import Client

    with Client() as client:
        removed = client.remove_drafter(drafter)
    if as_json:
        show_json(removed)
    else:
        say(f"{removed['name']} is forgotten; its weights are {removed['sha256'][:_SHOWN]} in the cache")


def _reference(drafter: str) -> str | None:
    """The reference of a drafter that is to be taken in; None: it is a name."""
    if drafter.startswith(_REFERENCES):
        return drafter
    path = Path(drafter).expanduser()
    return f"path:{path.absolute()}" if "/" in drafter or path.is_dir() else None


def _row(one: dict[str, Any]) -> tuple[str, ...]:
    lengths = one["evaluation"].get("tau") or {}
    return (
        one["name"],
        one["kind"],
        one["parent"] or "–",
        ", ".join(f"{name} {value:.2f}" for name, value in lengths.items()) or "not measured",
        ", ".join(one["modes"] or ()) or "–",
        size(one["bytes"]),
        ", ".join(digest[:_SHOWN] for digest in one["bound_to"]) or "–",
        moment(one["created_at"]),
    )
