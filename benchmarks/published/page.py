"""``docs/reference/published-configurations.md``, written from the comparison; a test keeps it current."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.published.compare import Comparison

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "published-configurations.md"
_HEAD = """# Published configurations, and what the planner makes of them

What others recommend for a model and a machine, beside what `outrider endpoint plan` chooses when it is told the model,
the machine and the intent, and nothing else. Every difference is listed with its reason. Where the plan has other GPUs
or another engine, the rest is compared with the plan for the source's own. `–` is left to the engine. The page is
written by `python -m benchmarks.published` from `benchmarks/published/pairs.yaml`; a test fails on a difference that
nobody has explained.
"""


def page(found: Sequence[Comparison]) -> str:
    """The page, in Markdown."""
    equal = sum(not one.differences for one in found)
    many = sum(len(one.differences) for one in found)
    counted = f"{len(found)} pairs, {equal} of them planned exactly as published; {many} differences in the others."
    rows = [_row(one) for one in found]
    table = [
        "| pair | published by | engine | precision | planned | differences |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([_HEAD, counted, "", *table, *rows, "", *(line for one in found for line in _part(one))])


def _row(one: Comparison) -> str:
    said = one.said
    name = f"[{one.name}](#{_anchor(one.name)})"
    who = f"[{said['who']}]({said['source']})"
    cells = (name, who, said["engine"], said["precision"], f"`{one.recipe}`", str(len(one.differences) or "none"))
    return f"| {' | '.join(cells)} |"


def _part(one: Comparison) -> list[str]:
    asked = ", ".join(f"{name} {_said(value)}" for name, value in one.spec.items() if name != "model")
    lines = [f"## {one.name}", "", f"Asked for: `{one.spec['model']}`{', ' + asked if asked else ''}."]
    lines += ["", f"Alike: {'; '.join(f'`{same}`' for same in one.same)}.", ""]
    if one.differences:
        lines += ["| | published | planned | why |", "| --- | --- | --- | --- |"]
        lines += [f"| {d.what} | {_cell(d.published)} | {_cell(d.planned)} | {d.why} |" for d in one.differences]
        lines.append("")
    return lines


def _said(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return str(value)


def _cell(text: str) -> str:
    return text if text == "–" else f"`{text}`"


def _anchor(title: str) -> str:
    """As GitHub makes it of a heading."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")
