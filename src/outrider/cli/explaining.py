"""Showing plans, and what a new endpoint is and how to use it."""

from __future__ import annotations

from typing import Any

from rich.text import Text
from rich.tree import Tree

from outrider.cli.terminal import coloured, console, say, say_pairs
from outrider.cli.text import clean
from outrider.client.http import Client
from outrider.recipes.explain import Line, explain
from outrider.recipes.plan import Plan
from outrider.spec.endpoint import Endpoint

_STYLES = {"title": "bold", "choice": "cyan", "reason": "", "rejected": "dim", "note": "yellow", "ignored": "yellow"}


def make_plan(spec: dict[str, Any]) -> Plan:
    """Plan on the controller's machine where one answers, else in this process on this machine."""
    from outrider.spec.endpoint import parse

    endpoint = parse(spec)
    with Client() as client:
        if not client.local or client.reachable():
            return Plan.model_validate(client.plan(spec))
    return plan_here(endpoint)


def plan_here(endpoint: Endpoint) -> Plan:
    """Plan in this process, for this machine. Raises what the planner raises."""
    from outrider.placement.discover import discover
    from outrider.recipes.library import load_catalog
    from outrider.recipes.planner import plan
    from outrider.recipes.reading import facts_of_spec, files_of_spec
    from outrider.spec.home import Home

    catalog = load_catalog()
    facts, files = facts_of_spec(endpoint), files_of_spec(endpoint, catalog)
    return plan(endpoint, discover(Home.from_environment()), catalog, facts, files)


def show_plan(plan: Plan, *, everything: bool = False) -> None:
    """Print the decision as a tree; ``everything``: with all that was considered."""
    line = explain(plan, everything=everything)
    if not console.is_terminal:
        _indented(line, 0)
        return
    tree = Tree(_styled(line), guide_style="dim")
    _hang(tree, line)
    console.print(tree)


def show_created(view: dict[str, Any], *, waited: bool, key_needed: bool) -> None:
    """Print where the endpoint is and the lines to use it. ``key_needed``: the gateway asks for a key."""
    name, url = str(view["name"]), str(view["url"])
    say()
    if waited:
        console.print(Text.assemble((name, "bold"), " is ", ("ready", "bold green")), soft_wrap=True)
    else:
        say(f"{name} was created; watch it with: outrider endpoint info {name}")
    recipe = f", recipe {view['recipe']}" if view["recipe"] else ""
    say_pairs(
        [
            ("url", url),
            ("model", f"{name}  (send this as `model`)"),
            *(("", f"{name}:{adapter}") for adapter in view.get("adapters") or ()),
            ("engine", f"{view['engine'] or 'none: the file starts its own server'}{recipe}"),
            ("serve.py", f"{view['source']}  (outrider endpoint source {name})"),
        ]
    )
    if view["task"] != "custom":
        _show_use(name, url, str(view["task"]), key_needed)


def _show_use(name: str, url: str, task: str, key_needed: bool) -> None:
    embed = task == "embed"
    path = "embeddings" if embed else "chat/completions"
    body = '"input": "Hello!"' if embed else '"messages": [{"role": "user", "content": "Hello!"}]'
    key = ' -H "Authorization: Bearer $KEY"' if key_needed else ""
    arguments = '    input="Hello!",' if embed else '    messages=[{"role": "user", "content": "Hello!"}],'
    what = "embeddings" if embed else "chat.completions"
    shown = "answer.data[0].embedding" if embed else "answer.choices[0].message.content"
    shell = [
        f"curl {url}/{path} -H 'Content-Type: application/json'{key} \\",
        f'  -d \'{{"model": "{name}", {body}}}\'',
    ]
    secret = 'os.environ["KEY"]' if key_needed else '"none"'
    python = [
        "import os, openai" if key_needed else "import openai",
        f'client = openai.OpenAI(base_url="{url}", api_key={secret})',
        f"answer = client.{what}.create(",
        f'    model="{name}",',
        arguments,
        ")",
        f"print({shown})",
    ]
    for block in (shell, python):
        say()
        for line in block:
            say(f"  {line}", "cyan")


def _indented(line: Line, depth: int) -> None:
    say("  " * depth + line.text)
    for child in line.under:
        _indented(child, depth + 1)


def _hang(tree: Tree, line: Line) -> None:
    for child in line.under:
        _hang(tree.add(_styled(child)), child)


def _styled(line: Line) -> Text:
    style, text = _STYLES[line.kind], clean(line.text)
    if line.kind == "choice" and ": " in text:
        head, _, tail = text.partition(": ")
        return Text.assemble((head, style), ": ", coloured(tail))
    return Text(text, style)
