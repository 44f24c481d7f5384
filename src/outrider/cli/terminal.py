"""How the command line speaks: tables and trees for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

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


def show_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table; words that name a state get its colour."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(coloured(str(cell)) for cell in row))
    console.print(table)


def coloured(text: str) -> str:
    """Rich markup of a state word; other text escaped."""
    from rich.markup import escape

    colour = _COLOURS.get(text)
    return f"[{colour}]{text}[/{colour}]" if colour else escape(text)


def moment(milliseconds: int | None) -> str:
    """A stored time, in UTC to the second."""
    if milliseconds is None:
        return "–"
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def megabytes(count: int) -> str:
    """Bytes for people."""
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.2f} GB"
