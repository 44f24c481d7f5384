"""``doctor``: what this machine can run, and why not more. Nothing needs to run, and nothing is changed."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from outrider.cli.terminal import console, say, show_json
from outrider.cli.text import clean
from outrider.cli.up import API_PORT, PORT
from outrider.errors import InvalidRecipe, MachineFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outrider.placement.findings import Finding
    from outrider.recipes.library import Catalog
    from outrider.recipes.runnable import Verdict

_STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "bold red", "runs": "green", "no": "dim"}
_STATUS_WIDTH = len("warning")


def doctor(
    port: Annotated[int, typer.Option(min=1, max=65535, envvar="OUTRIDER_PORT", help="Port of the gateway.")] = PORT,
    api_port: Annotated[
        int, typer.Option(min=1, max=65535, envvar="OUTRIDER_API_PORT", help="Port of the controller.")
    ] = API_PORT,
    environments: Annotated[
        bool, typer.Option("--environments", help="Also ask the package index whether engines can be installed.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what this machine can run, and why not more; each finding with its fix. Installs nothing.

    Exits with 0, or with 7 where a finding is a problem; notes and warnings are none.
    """
    waiting = console.status("looking at this machine") if console.is_terminal and not as_json else nullcontext()
    with waiting:
        recipes, findings = _look(port, api_port, environments=environments)
    from outrider.placement.findings import Status, worst

    status = worst(findings)
    if as_json:
        show_json(
            {"status": status, "recipes": [asdict(v) for v in recipes], "findings": [asdict(f) for f in findings]}
        )
    else:
        _show_recipes(recipes)
        _show_findings(findings)
        _show_sum(findings)
    if status is Status.PROBLEM:
        raise typer.Exit(MachineFault.exit_code)


def _look(port: int, api_port: int, *, environments: bool) -> tuple[Sequence[Verdict], list[Finding]]:
    from functools import partial

    from outrider.models.cache import Cache
    from outrider.placement.discover import discover
    from outrider.placement.engine_findings import broken, engine_findings, hindrance
    from outrider.placement.examine import examine
    from outrider.placement.findings import machine_findings
    from outrider.recipes.runnable import verdicts
    from outrider.spec.home import Home

    home = Home.from_environment()
    machine = examine(home, gateway_port=port, controller_port=api_port, now=datetime.now(UTC))
    catalog, invalid = _catalog()
    judged = partial(
        verdicts,
        discover(home),
        catalog,
        broken=broken(machine.engines),
        cached={blob.sha256 for blob in Cache(home.cache).blobs()},
        available_bytes=machine.memory.available,
    )
    recipes = judged(hindrance=partial(hindrance, machine))
    asked: list[Finding] = []
    if environments:
        unbuildable, asked = _resolved(recipes, catalog)
        recipes = judged(hindrance=lambda packages: unbuildable.get(tuple(packages)) or hindrance(machine, packages))
    return recipes, [_recipes(recipes, invalid), *engine_findings(machine), *asked, *machine_findings(machine)]


def _resolved(
    recipes: Sequence[Verdict], catalog: Catalog
) -> tuple[dict[tuple[str, ...], tuple[str, str]], list[Finding]]:
    """Each environment of the recipes that run here, asked of the package index: what cannot be had, and findings."""
    from outrider.app.environment import Environment
    from outrider.errors import OutriderError
    from outrider.placement.findings import Finding, Status

    wanted = {verdict.packages: verdict.recipe for verdict in recipes if verdict.packages}
    unbuildable: dict[tuple[str, ...], tuple[str, str]] = {}
    findings = []
    for packages, recipe in wanted.items():
        named = ", ".join(packages)
        try:
            found = Environment(catalog.get(recipe).engine.environment.python, packages).resolve(lambda progress: None)
        except OutriderError as error:
            why = error.why or error.what
            unbuildable[packages] = f"its environment cannot be built: {why}", error.remedy or ""
            text = f"no replica with it starts: {why}"
            findings.append(Finding("environment", Status.PROBLEM, named, text, error.remedy or ""))
        else:
            findings.append(Finding("environment", Status.OK, f"{named}: {len(found)} packages, all to be had"))
    return unbuildable, findings


def _catalog() -> tuple[Catalog, InvalidRecipe | None]:
    """Every recipe; or those that ship, and what is wrong with the user's own."""
    from outrider.recipes.library import load_catalog

    try:
        return load_catalog(), None
    except InvalidRecipe as error:
        return load_catalog(extra=()), error


def _recipes(recipes: Sequence[Verdict], invalid: InvalidRecipe | None) -> Finding:
    from outrider.placement.findings import Finding, Status

    running = sum(verdict.runnable for verdict in recipes)
    found = f"{running} of {len(recipes)} can run here"
    if invalid is not None:
        text = f"{invalid.what}: {invalid.why}; until then no endpoint can be planned"
        return Finding("recipes", Status.PROBLEM, f"{found}, of those that ship", text, invalid.remedy or "")
    if not running:
        text = "no endpoint of the catalog can be made on this machine"
        return Finding("recipes", Status.PROBLEM, found, text, "Change what the reasons above name.")
    return Finding("recipes", Status.OK, found)


def _show_recipes(recipes: Sequence[Verdict]) -> None:
    say("What this machine can run", "bold")
    shown = [verdict for verdict in recipes if not verdict.lacks_all_gpus]
    width = max((len(verdict.recipe) for verdict in shown), default=0)
    for verdict in shown:
        word = "runs" if verdict.runnable else "no"
        _row(word, verdict.recipe, width, verdict.reason, "", verdict.fix)
    if lacking := len(recipes) - len(shown):
        name, needs = f"{lacking} more", "they need NVIDIA GPUs, and this machine has none"
        _row("no", name, width, needs, "", "See what they need: outrider recipe list")


def _show_findings(findings: Sequence[Finding]) -> None:
    say()
    say("What was looked at", "bold")
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        _row(finding.status, finding.check, width, finding.found, finding.consequence, finding.fix)


def _show_sum(findings: Sequence[Finding]) -> None:
    from outrider.placement.findings import Status

    say()
    counts = [(status, sum(f.status is status for f in findings)) for status in reversed(Status)]
    said = [f"{count} {status}{'s' if count > 1 else ''}" for status, count in counts if count and status != "ok"]
    say(", ".join(said) if said else "nothing to note", "bold")


def _row(word: str, label: str, width: int, text: str, consequence: str, fix: str) -> None:
    """A line, and under it what follows. Prose is wrapped on a terminal; a fix never is, so that it can be copied."""
    indent = 2 + _STATUS_WIDTH + 2 + width + 2
    head = Text.assemble("  ", (f"{word:<{_STATUS_WIDTH}}", _STYLES[word]), "  ", f"{clean(label):<{width}}", "  ")
    _hanging(head, Text(clean(text)), indent)
    if consequence:
        _hanging(Text(" " * indent), Text(clean(consequence), "dim"), indent)
    if fix:
        console.print(Text.assemble(" " * indent, ("fix: ", "bold"), clean(fix)), soft_wrap=True)


def _hanging(head: Text, text: Text, indent: int) -> None:
    if not console.is_terminal or console.width - indent < 30:
        console.print(head + text, soft_wrap=True)
        return
    first, *rest = text.wrap(console, console.width - indent)
    for start, line in ((head, first), *((Text(" " * indent), line) for line in rest)):
        line.rstrip()
        console.print(start + line, soft_wrap=True)
