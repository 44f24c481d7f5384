"""``endpoint apply``, ``diff`` and ``schema``: endpoints kept as files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from outrider.cli.terminal import say, show_json, show_table
from outrider.cli.up import start_if_needed
from outrider.client.http import Client
from outrider.errors import OutriderError, UsageError

if TYPE_CHECKING:
    from outrider.recipes.proposal import Proposal  # imported where used: help does not wait for the spec
    from outrider.spec.files import Declared

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Files = Annotated[
    list[str] | None,
    typer.Option("--file", "-f", help="YAML file, directory of *.yaml and *.yml (not those below it), or - for stdin."),
]
Replace = Annotated[bool, typer.Option("--replace-source", help="Overwrite a serve.py that was edited by hand.")]
_ALONE = "Outrider is not running: planned here, and compared with nothing. To compare with what there is: outrider up"


def register(app: typer.Typer) -> None:
    """Add the commands to the group."""
    app.command("apply")(apply)
    app.command("diff")(diff)
    app.command("schema")(schema)


def apply(
    files: Files = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would change; change and start nothing.")
    ] = False,
    replace_source: Replace = False,
    wait: Annotated[bool, typer.Option(help="Wait until all of them serve.")] = True,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds to wait.")] = 3600.0,
    as_json: Json = False,
) -> None:
    """Make endpoints what their files say. Applying twice changes nothing; what no file names is left alone.

    Every document is checked before anything is changed. Starts `outrider up` where nothing runs.
    """
    declared = _read(files)
    if dry_run:
        _dry_run(declared, replace_source=replace_source, as_json=as_json)
        return
    from outrider.cli.proposing import ask

    with Client() as client:
        start_if_needed(client, quiet=as_json)
        proposals = ask(client, declared, replace_source=replace_source, quiet=as_json)
        rows = _change(client, declared, proposals, replace_source=replace_source, quiet=as_json)
        failed = _wait(client, rows, timeout=timeout, quiet=as_json) if wait else None
    if failed is not None:
        failed.details = {**failed.details, "endpoints": rows}
        raise failed
    if as_json:
        show_json({"dry_run": False, "endpoints": rows})


def diff(
    files: Files = None,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit with 1 where something would change.")] = False,
    as_json: Json = False,
) -> None:
    """Show what apply would change: fields, the plan they lead to, and serve.py. Changes nothing, starts nothing."""
    declared = _read(files)
    proposals, alone = _propose(declared, replace_source=True, quiet=as_json)
    if as_json:
        show_json(_proposed(declared, proposals, alone))
    else:
        from outrider.cli.differences import count, show_proposal

        for entry, proposal in zip(declared, proposals, strict=True):
            show_proposal(proposal, entry.place(), whole=True)
        say()
        say(count(proposals))
        if alone:
            say(_ALONE, "yellow")
    if exit_code and any(proposal.action != "unchanged" for proposal in proposals):
        raise typer.Exit(1)


def schema() -> None:
    """Print the JSON Schema of a file's documents, for editors: yaml-language-server, or any validator."""
    from outrider.spec.schema import endpoint_schema

    show_json(endpoint_schema())


def _read(files: list[str] | None) -> list[Declared]:
    if not files:
        raise UsageError("No file", remedy="Give one, a directory, or - for standard input: -f FILE")
    from outrider.spec.files import read_files

    return read_files(files)


def _propose(declared: Sequence[Declared], *, replace_source: bool, quiet: bool) -> tuple[list[Proposal], bool]:
    """What would change, and whether it was compared with nothing since no controller of this machine runs."""
    from outrider.cli.proposing import ask, plan_alone

    with Client() as client:
        if not client.local or client.reachable():
            return ask(client, declared, replace_source=replace_source, quiet=quiet), False
    return plan_alone(declared, quiet=quiet), True


def _proposed(declared: Sequence[Declared], proposals: Sequence[Proposal], alone: bool) -> dict[str, Any]:
    items = [
        {**proposal.model_dump(mode="json"), "file": entry.file, "document": entry.document, "line": entry.line}
        for entry, proposal in zip(declared, proposals, strict=True)
    ]
    return {"dry_run": True, "compared_with": "nothing" if alone else "controller", "endpoints": items}


def _dry_run(declared: Sequence[Declared], *, replace_source: bool, as_json: bool) -> None:
    proposals, alone = _propose(declared, replace_source=replace_source, quiet=as_json)
    if as_json:
        show_json(_proposed(declared, proposals, alone))
        return
    from outrider.cli.differences import count, show_proposal

    for entry, proposal in zip(declared, proposals, strict=True):
        show_proposal(proposal, entry.place(), whole=False)
    say()
    say(f"nothing was changed: {count(proposals)}")
    if alone:
        say(_ALONE, "yellow")


def _change(
    client: Client, declared: Sequence[Declared], proposals: Sequence[Proposal], *, replace_source: bool, quiet: bool
) -> list[dict[str, Any]]:
    """Put what differs, in order; what was checked is what is changed (``create``, ``If-Match``).

    Raises:
        the error of the one that failed; ``details`` names what was applied and what was not.
    """
    from outrider.cli.differences import show_action, show_proposal

    rows: list[dict[str, Any]] = []
    for number, (entry, proposal) in enumerate(zip(declared, proposals, strict=True)):
        try:
            view = _put(client, entry, proposal, replace_source)
        except OutriderError as error:
            missed = [other.name for other in declared[number:]]
            error.details |= {"applied": [row["name"] for row in rows], "not_applied": missed}
            if not quiet:
                for name in missed:
                    show_action("not applied", name)
            raise
        rows.append(_row(entry, proposal, view))
        if not quiet:
            show_proposal(proposal, f"revision {view['revision']['number']}, {entry.place()}", whole=False)
    return rows


def _put(client: Client, entry: Declared, proposal: Proposal, replace_source: bool) -> dict[str, Any]:
    if proposal.action == "unchanged":
        return client.endpoint(entry.name)
    return client.put(
        entry.name,
        entry.spec(),
        create=proposal.action == "created",
        replace_source=replace_source,
        generation=proposal.generation,
    )


def _row(entry: Declared, proposal: Proposal, view: dict[str, Any]) -> dict[str, Any]:
    place = {"name": entry.name, "action": proposal.action, "file": entry.file, "document": entry.document}
    changed = [change.model_dump(mode="json") for change in proposal.changes]
    return {**place, "changes": changed, "error": None, "endpoint": view}


def _wait(client: Client, rows: list[dict[str, Any]], *, timeout: float, quiet: bool) -> OutriderError | None:
    """Wait for all that should run and do not serve yet; the first error, None where all serve."""
    from outrider.cli.several import wait_all

    waited = [row["endpoint"] for row in rows if _is_awaited(row)]
    try:
        outcomes = wait_all(client, waited, timeout=timeout, quiet=quiet)
    except KeyboardInterrupt:
        if not quiet:
            say("\nthey go on without you; see: outrider endpoint list")
        raise
    first = None
    for row in rows:
        outcome = outcomes.get(row["name"], row["endpoint"])
        if isinstance(outcome, OutriderError):
            row["error"] = outcome.problem()
            first = first or outcome
        else:
            row["endpoint"] = outcome
    if not quiet:
        _show_outcomes(rows)
    return first


def _is_awaited(row: dict[str, Any]) -> bool:
    view = row["endpoint"]
    serves = row["action"] == "unchanged" and view["state"] == "ready"
    return view["desired"] == "running" and not serves


def _show_outcomes(rows: Sequence[dict[str, Any]]) -> None:
    shown = []
    for row in rows:
        view, error = row["endpoint"], row["error"]
        state = f"failed: {error['title']}" if error else view["state"]
        shown.append((row["name"], state, view["revision"]["number"], view["url"] or "–"))
    say()
    show_table(("endpoint", "state", "revision", "url"), shown)
