"""Showing plans, and what a new endpoint is and how to use it."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.tree import Tree

from outrider.cli.terminal import coloured, console
from outrider.client.http import Client
from outrider.recipes.explain import Line, explain
from outrider.recipes.plan import Plan

_STYLES = {"title": "bold", "choice": "cyan", "reason": "", "rejected": "dim", "ignored": "yellow"}


def make_plan(spec: dict[str, Any]) -> Plan:
    """Plan on the controller's machine where one answers, else in this process on this machine."""
    from outrider.placement.discover import discover
    from outrider.recipes.library import load_catalog
    from outrider.recipes.planner import plan
    from outrider.recipes.reading import facts_of_spec
    from outrider.spec.endpoint import parse
    from outrider.spec.home import Home

    endpoint = parse(spec)
    with Client() as client:
        if not client.local or client.reachable():
            return Plan.model_validate(client.plan(spec))
    return plan(endpoint, discover(Home.from_environment()), load_catalog(), facts_of_spec(endpoint))


def show_plan(plan: Plan) -> None:
    """Print the decision as a tree."""
    line = explain(plan)
    tree = Tree(_styled(line))
    _hang(tree, line)
    console.print(tree)


def show_created(view: dict[str, Any], *, waited: bool) -> None:
    """Print where the endpoint is and the lines to use it."""
    url, name = view["url"], view["name"]
    state = "is ready" if waited else "was created; watch it with: outrider endpoint info " + name
    console.print(f"\n[bold]{name}[/bold] {state}")
    console.print(f"  url     {url}")
    console.print(f"  model   {name}")
    console.print(f"  engine  {view['engine']}, recipe {view['recipe']}")
    console.print(f"  source  {view['source']}\n")
    body = f'{{"model": "{name}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
    console.print(
        f"  curl {url}/chat/completions -H 'Content-Type: application/json' \\\n    -d '{body}'", markup=False
    )


def _hang(tree: Tree, line: Line) -> None:
    for child in line.under:
        _hang(tree.add(_styled(child)), child)


def _styled(line: Line) -> str:
    style = _STYLES[line.kind]
    if line.kind == "choice" and ": " in line.text:
        head, _, tail = line.text.partition(": ")
        return f"[{style}]{escape(head)}[/{style}]: {coloured(tail)}"
    return f"[{style}]{escape(line.text)}[/{style}]" if style else escape(line.text)
