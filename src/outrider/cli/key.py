"""``key``: who may use the endpoints."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from outrider.cli.candidates import endpoint_names, key_names
from outrider.cli.terminal import moment, say, show_json, show_table
from outrider.client.http import Client

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Make, list and revoke API keys.",
)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def create(
    name: str,
    scope: Annotated[list[str] | None, typer.Option(help="inference (default) or admin; repeatable.")] = None,
    endpoint: Annotated[
        list[str] | None, typer.Option(help="Only for this endpoint; repeatable.", autocompletion=endpoint_names)
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a key; its secret is shown once. From the first key on, the gateway asks for one."""
    body: dict[str, Any] = {"name": name, "scopes": scope or ["inference"], "endpoints": endpoint}
    with Client() as client:
        made = client.create_key(body)
    if as_json:
        show_json(made)
        return
    print(made["secret"])  # alone on standard output, so that KEY=$(outrider key create NAME) is the key
    print("This is shown once. Send it as: Authorization: Bearer KEY", file=sys.stderr)


@app.command("list")
def list_keys(as_json: Json = False) -> None:
    """List keys; never a secret."""
    with Client() as client:
        found = client.keys()
    if as_json:
        show_json(found)
        return
    rows = [
        (k["name"], f"…{k['hint']}", ", ".join(k["scopes"]), moment(k["created_at"]), moment(k["revoked_at"]))
        for k in found
    ]
    show_table(("name", "key", "scopes", "created (UTC)", "revoked (UTC)"), rows, empty="no keys")


@app.command()
def revoke(key: Annotated[str, typer.Argument(autocompletion=key_names)], as_json: Json = False) -> None:
    """Revoke a key by name or id; it stops working at once."""
    with Client() as client:
        revoked = client.revoke_key(key)
    if as_json:
        show_json(revoked)
    else:
        say(f"{revoked['name']} is revoked")
