"""``key``: who may use the endpoints."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from outrider.cli.expiry import expiry
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
    endpoint: Annotated[list[str] | None, typer.Option(help="Only for this endpoint; repeatable.")] = None,
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="Most requests a minute.")] = None,
    tokens_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Most tokens a minute, prompts included.")
    ] = None,
    budget_tokens: Annotated[int | None, typer.Option(min=1, help="Most tokens in all, prompts included.")] = None,
    expires: Annotated[str | None, typer.Option(help="After 12h or 30d, or at a date: 2027-01-31.")] = None,
    as_json: Json = False,
) -> None:
    """Make a key; its secret is shown once. From the first key on, the gateway asks for one."""
    body: dict[str, Any] = {"name": name, "scopes": scope or ["inference"], "endpoints": endpoint}
    limits = {
        "requests_per_minute": requests_per_minute,
        "tokens_per_minute": tokens_per_minute,
        "budget_tokens": budget_tokens,
    }
    if given := {limit: value for limit, value in limits.items() if value is not None}:
        body["limits"] = given
    if expires is not None:
        body["expires_at"] = expiry(expires, datetime.now(UTC))
    with Client() as client:
        made = client.create_key(body)
    if as_json:
        show_json(made)
        return
    print(made["secret"])
    say("This is shown once. Send it as: Authorization: Bearer KEY", "dim")


@app.command("list")
def list_keys(as_json: Json = False) -> None:
    """List keys and what each has used; never a secret."""
    with Client() as client:
        found = client.keys()
    if as_json:
        show_json(found)
        return
    rows = [(k["name"], f"…{k['hint']}", ", ".join(k["scopes"]), _limits(k), *_used(k), _until(k)) for k in found]
    show_table(("name", "key", "scopes", "limits", "requests", "tokens", "until (UTC)"), rows, empty="no keys")


@app.command()
def revoke(key: str, as_json: Json = False) -> None:
    """Revoke a key by name or id; it stops working at once."""
    with Client() as client:
        revoked = client.revoke_key(key)
    if as_json:
        show_json(revoked)
    else:
        say(f"{revoked['name']} is revoked")


_LIMITS = (("requests_per_minute", "requests/min"), ("tokens_per_minute", "tokens/min"), ("budget_tokens", "tokens"))


def _limits(key: dict[str, Any]) -> str:
    limits = key.get("limits") or {}
    return ", ".join(f"{limits[name]:,} {unit}" for name, unit in _LIMITS if limits.get(name) is not None) or "–"


def _used(key: dict[str, Any]) -> tuple[str, str]:
    used = key.get("usage") or {}
    tokens = used.get("prompt_tokens", 0) + used.get("completion_tokens", 0)
    return f"{used.get('requests', 0):,}", f"{tokens:,}"


def _until(key: dict[str, Any]) -> str:
    if key["revoked_at"] is not None:
        return f"revoked {moment(key['revoked_at'])}"
    return moment(key["expires_at"])
