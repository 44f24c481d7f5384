"""Showing what files would change: a word an endpoint, its fields, and the diff of its ``serve.py``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rich.text import Text

from outrider.cli.terminal import console, say
from outrider.cli.text import clean
from outrider.recipes.proposal import Proposal
from outrider.spec.changes import Change

_ACTIONS = {"created": "green", "changed": "yellow", "unchanged": "dim", "failed": "red", "not applied": "red"}
_KINDS = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}
_LINES = (("+++", "bold"), ("---", "bold"), ("@@", "cyan"), ("+", "green"), ("-", "red"))


def show_action(action: str, name: str, note: str = "") -> None:
    """Print what became, or would become, of an endpoint."""
    tail = f"  {clean(note)}" if note else ""
    console.print(Text.assemble((f"{action:<11}", _ACTIONS[action]), (name, "bold"), (tail, "dim")), soft_wrap=True)


def show_proposal(proposal: Proposal, note: str, *, whole: bool) -> None:
    """Print the action and the fields that differ; ``whole``: also a new endpoint's plan, and the diff of the file."""
    show_action(proposal.action, proposal.name, note)
    if proposal.action == "unchanged":
        return
    _show_changes("spec", proposal.changes, empty=_why_without_change(proposal))
    if whole or proposal.action == "changed":
        _show_changes("plan", proposal.plan_changes)
    if not whole:
        return
    if proposal.source_edited:
        say("  serve.py was edited by hand: apply refuses to overwrite it without --replace-source", "yellow")
    if proposal.source_diff:
        say("  serve.py")
    for line in proposal.source_diff.splitlines():
        style = next((style for start, style in _LINES if line.startswith(start)), "")
        say(f"    {line}", style)


def count(proposals: Sequence[Proposal]) -> str:
    """How many would be created, changed and unchanged."""
    counted = Counter[str](proposal.action for proposal in proposals)
    words = (("created", "to create"), ("changed", "to change"), ("unchanged", "unchanged"))
    return ", ".join(f"{counted[action]} {text}" for action, text in words)


def _why_without_change(proposal: Proposal) -> str:
    if proposal.source_edited:
        return f"the same; revision {proposal.revision} is an edited serve.py"
    if proposal.plan_changes or proposal.source_diff:
        return f"the same; it leads to another serve.py than revision {proposal.revision}"
    return f"the same; revision {proposal.revision} failed or was planned for other reasons"


def _show_changes(title: str, found: Iterable[Change], *, empty: str = "") -> None:
    rows = list(found)
    if not rows:
        if empty:
            say(f"  {title}: {empty}", "dim")
        return
    say(f"  {title}")
    width = max(len(change.path) for change in rows)
    for change in rows:
        mark, style = _KINDS[change.kind]
        say(f"    {mark} {change.path:<{width}}  {_values(change)}", style)


def _values(change: Change) -> str:
    if change.kind == "changed":
        return f"{_written(change.before)} → {_written(change.after)}"
    return _written(change.after if change.kind == "added" else change.before)


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
