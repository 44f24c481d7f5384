"""The commands of ``endpoint`` that only look."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from outrider.cli.terminal import coloured, console, moment, show_json, show_table
from outrider.client.http import Client

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the group."""
    app.command("list")(list_endpoints)
    app.command("info")(info)
    app.command("source")(source)
    app.command("logs")(logs)
    app.command("events")(events)


def list_endpoints(as_json: Json = False) -> None:
    """List endpoints with their state and URL."""
    with Client() as client:
        found = client.endpoints()
    if as_json:
        show_json(found)
        return
    columns = ("name", "state", "model", "engine", "revision", "replicas", "url")
    show_table(columns, [_row(view) for view in found])


def info(name: str, as_json: Json = False) -> None:
    """Show one endpoint: state, revisions, replicas."""
    with Client() as client:
        view, revisions = client.endpoint(name), client.revisions(name)
    if as_json:
        show_json(view | {"revisions": revisions})
        return
    edited = " (edited)" if view["source_edited"] else ""
    console.print(f"[bold]{view['name']}[/bold] is {coloured(view['state'])}")
    for label in ("model", "engine", "recipe", "url"):
        console.print(f"  {label:<8}{view[label] or '–'}")
    console.print(f"  source  {view['source']}{edited}")
    if view["reason"]:
        console.print(f"  [red]reason[/red]  {view['reason']}")
    console.print()
    rows = [(r["number"], r["status"], r["origin"], r["digest"][:12], moment(r["created_at"])) for r in revisions]
    show_table(("revision", "status", "origin", "digest", "created (UTC)"), rows)
    console.print()
    replicas = [(r["id"], r["stage"], r["revision"], r["pid"], moment(r["since"])) for r in view["replicas"]]
    show_table(("replica", "stage", "revision", "pid", "since (UTC)"), replicas)


def source(name: str, revision: Annotated[str, typer.Option(help="A number, or current.")] = "current") -> None:
    """Print its serve.py: exactly what runs."""
    with Client() as client:
        print(client.source(name, revision), end="")


def logs(
    name: str,
    replica: Annotated[str, typer.Option(help="A replica's id, or latest.")] = "latest",
    tail: Annotated[int, typer.Option("--tail", "-n", min=1, max=10_000, help="Lines.")] = 200,
) -> None:
    """Print the last lines of a replica's log."""
    with Client() as client:
        print(client.logs(name, replica, tail=tail), end="")


def events(name: str, as_json: Json = False) -> None:
    """List what happened, and why."""
    with Client() as client:
        found = client.events(name)
    if as_json:
        show_json(found)
        return
    rows = [(moment(e["at"]), e["kind"], e["message"], e["reason"]) for e in found]
    show_table(("at (UTC)", "kind", "what", "why"), rows)


def _row(view: dict[str, Any]) -> tuple[Any, ...]:
    revision = view["revision"]["number"] if view["revision"] else "–"
    cells = (view["name"], view["state"], view["model"] or "–", view["engine"] or "–", revision)
    return (*cells, len(view["replicas"]), view["url"] or "–")
