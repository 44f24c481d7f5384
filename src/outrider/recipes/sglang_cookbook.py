"""SGLang's cookbook: a JSX file a model with a cell a hardware, precision and strategy; figures in a second file. Pure.

Source: https://github.com/sgl-project/sglang/tree/main/docs_new/src/snippets/configs
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from outrider.errors import InvalidInput
from outrider.recipes.commands import read_command
from outrider.recipes.imported import Imported, Origin, Placed, Shape, document, shaped, unread

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
_COLON = re.compile(r"\s*:")
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
    except (ValueError, RecursionError) as error:
        raise InvalidInput("The file holds more than data", why=str(error)) from error


def _as_json(found: re.Match[str], text: str) -> list[str]:
    kind, word = found.lastgroup, found[0]
    if kind in ("comment", "blank"):
        return []
    if kind == "text":
        inner = re.sub(r"\\(.)", _escaped, word[1:-1], flags=re.DOTALL) if word[0] != '"' else json.loads(word)
        return [json.dumps(inner)]
    if kind in ("word", "number") and _COLON.match(text, found.end()):
        return [json.dumps(word)]
    if kind == "word":
        return [_CONSTANTS.get(word, word)]
    if kind == "mark" and word == ",":
        rest = re.sub(r"//[^\n]*|/\*.*?\*/", "", text[found.end() : found.end() + 4096], flags=re.DOTALL).lstrip()
        return [] if rest[:1] in ("}", "]") else [word]  # JSON has no comma before the end
    return [word.replace("_", "") if kind == "number" else word]


def _escaped(found: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t", "\n": ""}.get(found[1], found[1])


class _Match(Shape):
    """Which cell; what else its source says of it keeps it apart from others."""

    model_config = ConfigDict(extra="allow")
    hw: str
    quant: str
    variant: str = ""
    strategy: str = ""
    nodes: str = "single"


class _Cell(Shape):
    match: _Match
    verified: bool = False
    env: tuple[Annotated[str, Field(pattern="=")], ...] = ()
    flags: tuple[str, ...]


class _Github(Shape):
    cookbookModel: str = ""


class _Config(Shape):
    """What is read of a model's file."""

    modelNames: dict[str, str]
    cells: tuple[_Cell, ...]
    github: _Github = _Github()


class _Load(Shape):
    max_concurrency: int = Field(ge=1)
    dataset: str = ""
    isl: int | None = None
    osl: int | None = None

    @property
    def traffic(self) -> dict[str, Any]:
        """As a recipe's workload."""
        known = {"name": self.dataset, "input_tokens": self.isl, "output_tokens": self.osl}
        return {name: value for name, value in known.items() if value}


class _Speed(Shape):
    workload: _Load
    ttft_ms: float | None = Field(default=None, gt=0)
    tpot_ms: float | None = Field(default=None, gt=0)


class _Row(Shape):
    match: _Match
    sglang_version: str = ""
    speed: tuple[_Speed, ...] = ()


class _Figures(Shape):
    rows: tuple[_Row, ...]


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
    data = read_literal(text)
    config = shaped(_Config, data, "recipe of SGLang's cookbook", "Name MODEL.jsx; its figures go to --benchmarks.")
    origin = Origin(url or f"{_SITE}/{config.github.cookbookModel}.jsx", "SGLang project", day)
    rows: tuple[_Row, ...] = ()
    if benchmarks:
        listed = {"rows": read_literal(benchmarks)}
        rows = shaped(_Figures, listed, "file of figures of SGLang's cookbook", "Name MODEL-benchmarks.jsx.").rows
    found = Imported(unread=unread(data, _CONFIG))
    for number, cell in enumerate(config.cells):
        measured = next((row for row in rows if row.match == cell.match), None)
        _read_cell(found, f"cells.{number}", cell, config, origin, version, measured)
    fields = [field for cell in data["cells"] for field in unread(cell, _CELL, "cells.*.")]
    found.unread += dict.fromkeys(fields)
    if rows:
        found.unread.append("tokens_per_sec_per_gpu")
    return found


def _read_cell(
    found: Imported, where: str, cell: _Cell, config: _Config, origin: Origin, version: str, measured: _Row | None
) -> None:
    match = cell.match
    if match.nodes != "single":
        found.left_out.append(f"{where}: it spans several nodes")
        return
    checkpoint = config.modelNames.get(f"{match.variant}|{match.quant}")
    if checkpoint is None:
        found.left_out.append(f"{where}: modelNames has no checkpoint for it")
        return
    base = config.modelNames.get(f"{match.variant}|bf16", checkpoint)
    command = read_command("sglang", cell.flags)
    command.model = checkpoint
    engine: dict[str, Any] = {"name": "sglang", "version": (measured and measured.sglang_version) or version}
    if cell.env:
        engine["environment"] = {"env": dict(pair.split("=", 1) for pair in cell.env)}
    model = {
        "id": base,
        "aliases": list(dict.fromkeys(name.rpartition("/")[2] for name in (base, checkpoint))),
        "facts": {"format": "safetensors", "architecture": "unknown", "source": origin.url},
    }
    profile = _PROFILES.get(match.strategy, "balanced")
    placed = Placed(hardware=match.hw, precision=match.quant, profile=profile, verified=cell.verified)
    note = "" if measured and measured.sglang_version else "the source names no version of SGLang"
    speed = measured.speed if measured and cell.verified and not command.unknown else ()
    workload, curve = _curve(speed)
    made = document(engine, model, command, placed, origin, workload=workload, curve=curve, note=note)
    found.recipes.append(made)
    found.left_out += [f"{made['id']}: {words}" for words in command.unknown]
    if others := len(speed) - len(curve):
        found.left_out.append(f"{made['id']}: {others} of its loads, of other traffic")


def _curve(speed: Sequence[_Speed]) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The first row's traffic, and the figures of all rows with the same: a curve is of one."""
    if not speed:
        return None, []
    traffic = speed[0].workload.traffic
    points = []
    for row in sorted(speed, key=lambda row: row.workload.max_concurrency):
        if row.workload.traffic == traffic:
            times = {"ttft_mean": row.ttft_ms, "itl_mean": row.tpot_ms}
            known = {name: round(value / 1000, 9) for name, value in times.items() if value}
            points.append({"concurrency": row.workload.max_concurrency, **known})
    return traffic or None, points
