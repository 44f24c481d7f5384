"""The commands of ``endpoint`` that only look."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.text import Text

from outrider.cli.candidates import endpoint_names
from outrider.cli.terminal import coloured, console, moment, say, say_pairs, show_json, show_table
from outrider.cli.text import clean, clean_lines
from outrider.client.http import Client

Name = Annotated[str, typer.Argument(autocompletion=endpoint_names)]
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
    show_table(columns, [_row(view) for view in found], empty="no endpoints; make one: outrider endpoint create")


def info(name: Name, as_json: Json = False) -> None:
    """Show one endpoint: state, revisions, replicas."""
    with Client() as client:
        view, revisions = client.endpoint(name), client.revisions(name)
    if as_json:
        show_json(view | {"revisions": revisions})
        return
    console.print(Text.assemble((clean(view["name"]), "bold"), " is ", coloured(view["state"])), soft_wrap=True)
    edited = " (edited by hand)" if view["source_edited"] else ""
    pairs = [(label, str(view[label] or "–")) for label in ("model", "engine", "recipe", "url")]
    pairs.append(("serve.py", f"{view['source'] or '–'}{edited}"))
    say_pairs([*pairs, ("reason", str(view["reason"]))] if view["reason"] else pairs)
    say()
    rows = [(r["number"], r["status"], r["origin"], r["digest"][:12], moment(r["created_at"])) for r in revisions]
    show_table(("revision", "status", "origin", "digest", "created (UTC)"), rows, empty="no revisions")
    say()
    replicas = [(r["id"], r["stage"], r["revision"], r["pid"], moment(r["since"])) for r in view["replicas"]]
    show_table(("replica", "stage", "revision", "pid", "since (UTC)"), replicas, empty="no replicas")


def source(name: Name, revision: Annotated[str, typer.Option(help="A number, or current.")] = "current") -> None:
    """Print its serve.py: exactly what runs."""
    with Client() as client:
        print(client.source(name, revision), end="")


def logs(
    name: Name,
    replica: Annotated[str, typer.Option(help="A replica's id, or latest.")] = "latest",
    tail: Annotated[int, typer.Option("--tail", "-n", min=1, max=10_000, help="Lines.")] = 200,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written next.")] = False,
    as_json: Json = False,
) -> None:
    """Print the last lines of a replica's log. --follow goes from the latest replica to the one that replaces it."""
    with Client() as client:
        if follow:
            _follow_logs(client.follow_logs(name, replica, tail=tail), as_json=as_json)
            return
        text = client.logs(name, replica, tail=tail)
    if as_json:
        show_json({"lines": text.splitlines()})
    else:
        print(clean_lines(text), end="")


def events(
    name: Name,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens next.")] = False,
    as_json: Json = False,
) -> None:
    """List what happened, and why. With --follow and --json: one object a line."""
    with Client() as client:
        if follow:
            for event in client.follow_events(name):
                print(json.dumps(event, ensure_ascii=False) if as_json else "  ".join(_event(event)), flush=True)
            return
        found = client.events(name)
    if as_json:
        show_json(found)
    else:
        show_table(
            ("at (UTC)", "kind", "what", "why"), [_event(event) for event in found], empty="nothing happened yet"
        )


def _follow_logs(pieces: Iterable[dict[str, Any]], *, as_json: bool) -> None:
    shown = None
    for piece in pieces:
        replica, lines = piece["replica"], piece["lines"]
        if as_json:
            print(json.dumps(piece, ensure_ascii=False), flush=True)
        elif replica is None:
            print("no replica yet: waiting for one", file=sys.stderr, flush=True)
        elif not lines:
            if shown is not None:
                print(f"==> replica {clean(replica)} <==", flush=True)
            shown = replica
        else:
            print(clean_lines("\n".join(lines)), end="", flush=True)


def _event(event: dict[str, Any]) -> tuple[str, ...]:
    return (moment(event["at"]), *(clean(str(event[field])) for field in ("kind", "message", "reason")))


def _row(view: dict[str, Any]) -> tuple[Any, ...]:
    revision = view["revision"]["number"] if view["revision"] else "–"
    cells = (view["name"], view["state"], view["model"] or "–", view["engine"] or "–", revision)
    return (*cells, len(view["replicas"]), view["url"] or "–")
