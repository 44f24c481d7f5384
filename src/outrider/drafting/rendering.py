"""One record, seen as a sentence, lines, a table, JSON, code: what operations of templates are written with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from .values import KINDS, NUMERIC

Row = Mapping[str, str]

VIEWS = frozenset(
    [
        "noun",
        "class_name",
        "fields",
        "typed",
        "sentence",
        "pairs",
        "json",
        "python",
        "javascript",
        "csv",
        "table",
        "xml",
        "yaml",
        "arguments",
        "field",
        "value",
    ]
)
"""Words that an operation's text may hold in braces."""

_PYTHON = {"money": "float", "decimal": "float", "count": "int", "integer": "int", "flag": "bool"}


def views(noun: str, kinds: Mapping[str, str], rows: Sequence[Row], sentence: str, random: Random) -> dict[str, str]:
    """Every view of the record; those with several rows show all, the others the first."""
    first = rows[0]
    field = random.choice(list(kinds))
    typed = {name: _typed(kinds[name], value) for name, value in first.items()}
    return {
        "noun": noun,
        "class_name": "".join(part.title() for part in noun.split("_")),
        "fields": ", ".join(kinds),
        "typed": ", ".join(f"{name} ({_PYTHON.get(kind, 'str')})" for name, kind in kinds.items()),
        "sentence": sentence.format(**first),
        "pairs": "\n".join(f"{name}: {value}" for name, value in first.items()),
        "json": json.dumps(typed),
        "python": "\n".join(f"{name} = {value!r}" for name, value in typed.items()),
        "javascript": "\n".join(f"const {name} = {json.dumps(value)};" for name, value in typed.items()),
        "csv": "\n".join([",".join(kinds), *(",".join(row.values()) for row in rows)]),
        "table": _table(kinds, rows),
        "xml": f"<{noun}>" + "".join(f"<{name}>{value}</{name}>" for name, value in first.items()) + f"</{noun}>",
        "yaml": "\n".join(["- " + "\n  ".join(f"{name}: {value}" for name, value in row.items()) for row in rows]),
        "arguments": ", ".join(kinds),
        "field": field,
        "value": KINDS[kinds[field]](random),
    }


def _typed(kind: str, value: str) -> Any:
    if kind == "flag":
        return value == "true"
    return json.loads(value) if kind in NUMERIC else value


def _table(kinds: Mapping[str, str], rows: Sequence[Row]) -> str:
    lines = [list(kinds), ["---"] * len(kinds), *(list(row.values()) for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
