"""How the command line speaks: tables and trees for people, JSON for programs.

On a terminal there is colour (unless NO_COLOR is set); elsewhere lines are plain, whole and never wrapped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from outrider.cli.text import clean

console = Console(highlight=False)

_COLOURS = {
    "ready": "green",
    "active": "green",
    "measured": "green",
    "failed": "red",
    "untested": "red",
    "degraded": "yellow",
    "estimated": "yellow",
    "stopped": "dim",
    "retired": "dim",
}


def show_json(value: Any) -> None:
    """Print a value as JSON, and nothing else."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def say(text: str = "", style: str = "") -> None:
    """Print one line. It is no markup: text from elsewhere cannot style or break it."""
    console.print(Text(clean(text), style), soft_wrap=True)


def say_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Print labelled values under each other; words that name a state get their colour."""
    shown = list(pairs)
    width = max(len(label) for label, _ in shown)
    for label, value in shown:
        console.print(Text.assemble(f"  {label:<{width}}  ", coloured(value)), soft_wrap=True)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str = "none") -> None:
    """Print a table, or ``empty`` where there are no rows."""
    cells = [[clean(str(cell)) for cell in row] for row in rows]
    if not cells:
        say(empty, "dim")
    elif console.is_terminal:
        console.print(drawn_table(columns, cells))
    else:
        widths = [max(len(row[i]) for row in (list(columns), *cells)) for i in range(len(columns))]
        for row in (list(columns), *cells):
            say("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def drawn_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table as :func:`show_table` prints it on a terminal."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(coloured(cell) for cell in row))
    return table


def coloured(word: str, text: str | None = None) -> Text:
    """A state word in its colour, or ``text`` in the colour of a state word; other text as it is."""
    return Text(clean(word if text is None else text), _COLOURS.get(word, ""))


def moment(milliseconds: int | None) -> str:
    """A stored time, in UTC to the second."""
    if milliseconds is None:
        return "–"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
