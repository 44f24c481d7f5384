"""SGLang's cookbook: a JSX file a model with a cell a hardware, precision and strategy; figures in a second file. Pure.

Source: https://github.com/sgl-project/sglang/tree/main/docs_new/src/snippets/configs
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from outrider.errors import InvalidInput
from outrider.recipes.commands import read_command
from outrider.recipes.imported import Imported, Origin, Placed, document, unread

_SITE = "https://github.com/sgl-project/sglang/blob/main/docs_new/src/snippets/configs"
_PROFILES = {"low-latency": "latency", "balanced": "balanced", "high-throughput": "throughput"}
_CONFIG = ("modelName", "modelNames", "cells", "github")
_CELL = ("match", "verified", "env", "flags")
_TOKENS = re.compile(
    r"""
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`)
  | (?P<word>[A-Za-z_$][\w$]*)
  | (?P<number>-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)
  | (?P<mark>[{}\[\]:,])
  | (?P<blank>\s+)
    """,
    re.VERBOSE | re.DOTALL,
)
_CONSTANTS = {"true": "true", "false": "false", "null": "null", "undefined": "null"}


def read_literal(text: str) -> Any:
    """The object or array that a file of the cookbook exports: a JavaScript literal without calls.

    Raises:
        InvalidInput: it is none.
    """
    start = re.search(r"export const \w+ = ", text)
    if start is None:
        raise InvalidInput("This is no file of SGLang's cookbook", why="it exports no constant")
    words: list[str] = []
    position = start.end()
    while position < len(text) and text[position] != ";":
        found = _TOKENS.match(text, position)
        if found is None:
            line = text.count("\n", 0, position) + 1
            raise InvalidInput("The file holds more than data", why=f"line {line}: {text[position : position + 20]!r}")
        position = found.end()
        words += _as_json(found, text)
    try:
        return json.loads("".join(words))
    except ValueError as error:
        raise InvalidInput("The file holds more than data", why=str(error)) from error


def _as_json(found: re.Match[str], text: str) -> list[str]:
    kind, word = found.lastgroup, found[0]
    if kind in ("comment", "blank"):
        return []
    if kind == "text":
        inner = re.sub(r"\\(.)", _escaped, word[1:-1], flags=re.DOTALL) if word[0] != '"' else json.loads(word)
        return [json.dumps(inner)]
    if kind in ("word", "number") and re.match(r"\s*:", text[found.end() :]):
        return [json.dumps(word)]
    if kind == "word":
        return [_CONSTANTS.get(word, word)]
    if kind == "mark" and word == ",":
        rest = re.sub(r"//[^\n]*|/\*.*?\*/", "", text[found.end() : found.end() + 4096], flags=re.DOTALL).lstrip()
        return [] if rest[:1] in ("}", "]") else [word]  # JSON has no comma before the end
    return [word.replace("_", "") if kind == "number" else word]


def _escaped(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "\n": ""}.get(found[1], found[1])


def read_sglang(
    text: str, *, day: date, version: str, benchmarks: str | None = None, url: str | None = None
) -> Imported:
    """A recipe a cell.

    Args:
        text: of the model's file.
        day: of the import.
        version: of SGLang, for cells without figures: the file names none, and flags are checked by version.
        benchmarks: text of the file with its figures. Its rates are not read: a GPU's tokens a second are output tokens
            in one of these files and all tokens in the next.
        url: where it was had; None: the cookbook's address of it.

    Raises:
        InvalidInput: a file that is no data, or without cells.
    """
    config = read_literal(text)
    cells = config.get("cells") if isinstance(config, dict) else None
    if not isinstance(cells, list) or not isinstance(config.get("modelNames"), dict):
        raise InvalidInput("This is no recipe of SGLang's cookbook", why="cells or modelNames is missing")
    if bad := [number for number, cell in enumerate(cells) if not _is_cell(cell)]:
        raise InvalidInput("This is no recipe of SGLang's cookbook", why=f"cells.{bad[0]} has no match or no flags")
    named = (config.get("github") or {}).get("cookbookModel", "")
    origin = Origin(url or f"{_SITE}/{named}.jsx", "SGLang project", day)
    figures = read_literal(benchmarks) if benchmarks else []
    found = Imported(unread=unread(config, _CONFIG))
    for number, cell in enumerate(cells):
        _read_cell(found, f"cells.{number}", cell, config, origin, version, figures)
    if figures:
        found.unread.append("tokens_per_sec_per_gpu")
    return found


def _is_cell(cell: Any) -> bool:
    match = cell.get("match") if isinstance(cell, dict) else None
    return isinstance(match, dict) and {"hw", "quant"} <= match.keys() and isinstance(cell.get("flags"), list)


def _read_cell(
    found: Imported, where: str, cell: Any, config: Mapping[str, Any], origin: Origin, version: str, figures: Any
) -> None:
    match = cell["match"]
    if match.get("nodes", "single") != "single":
        found.left_out.append(f"{where}: it spans several nodes")
        return
    checkpoint = config["modelNames"].get(f"{match.get('variant')}|{match.get('quant')}")
    base = config["modelNames"].get(f"{match.get('variant')}|bf16") or checkpoint
    if checkpoint is None:
        found.left_out.append(f"{where}: modelNames has no checkpoint for it")
        return
    command = read_command("sglang", [str(flag) for flag in cell["flags"]])
    command.model = checkpoint
    measured = next((row for row in figures if row.get("match") == match), None)
    engine: dict[str, Any] = {"name": "sglang", "version": str(measured["sglang_version"]) if measured else version}
    if env := dict(str(pair).split("=", 1) for pair in cell.get("env") or []):
        engine["environment"] = {"env": env}
    model = {
        "id": base,
        "aliases": list(dict.fromkeys(name.rpartition("/")[2] for name in (base, checkpoint))),
        "facts": {"format": "safetensors", "architecture": "unknown", "source": origin.url},
    }
    placed = Placed(
        hardware=match["hw"],
        precision=match["quant"],
        profile=_PROFILES.get(match.get("strategy"), "balanced"),
        verified=cell.get("verified") is True,
    )
    note = "" if measured else "the source names no version of SGLang"
    curve = _curve(measured) if measured and placed.verified and not command.unknown else []
    made = document(engine, model, command, placed, origin, curve=curve, note=note)
    found.recipes.append(made)
    found.left_out += [f"{made['id']}: {words}" for words in command.unknown]
    found.unread += [field for field in unread(cell, _CELL, "cells.*.") if field not in found.unread]


def _curve(measured: Mapping[str, Any]) -> list[dict[str, Any]]:
    points = []
    for row in sorted(measured.get("speed") or [], key=lambda row: row["workload"]["max_concurrency"]):
        times = {"ttft_mean": row.get("ttft_ms"), "itl_mean": row.get("tpot_ms")}
        known = {name: round(value / 1000, 9) for name, value in times.items() if value}
        points.append({"concurrency": row["workload"]["max_concurrency"], **known})
    return points
