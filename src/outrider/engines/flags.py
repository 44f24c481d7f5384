"""Command line flags of vLLM and SGLang as data: name, type, and the versions that have them.

``vllm_flags.yaml`` and ``sglang_flags.yaml`` beside this file are made by ``scripts/engine-flags`` from the engines'
sources. Tests compare them with the recorded ``--help`` and, where the engine is installed, with its own parser.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from outrider.errors import InvalidInput

_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    Attributes:
        word: as on the command line, ``--max-model-len``.
        type: ``switch`` (only on), ``bool`` (on, or off as ``--no-…``), ``int``, ``float``, ``str``, ``list`` or
            ``json``.
        since: the oldest known version that has it.
        until: the newest known version that has it; None: the newest one has it.
    """

    word: str
    type: str
    since: str
    until: str | None = None

    @property
    def name(self) -> str:
        """As in ``extra``: ``max_model_len``."""
        return self.word.removeprefix("--").replace("-", "_")

    def words(self, value: Any) -> list[str]:
        """The words of the command line that set it. Nothing for a switch that is off."""
        match self.type:
            case "switch":
                return [self.word] if value else []
            case "bool":
                return [self.word if value else f"--no-{self.word.removeprefix('--')}"]
            case "list":
                return [self.word, *([value] if isinstance(value, str) else map(str, value))]
            case "json":
                return [self.word, value if isinstance(value, str) else json.dumps(value)]
            case _:
                return [self.word, str(value)]

    def known_in(self, version: str) -> bool:
        """Whether one of the versions read has it."""
        return ordered(self.since) <= ordered(version) and (
            self.until is None or ordered(version) <= ordered(self.until)
        )


@dataclass(frozen=True, slots=True)
class Flags:
    """All flags of an engine.

    Attributes:
        engine: Outrider's name for it.
        versions: those read, oldest first.
        by_name: in the spelling of ``extra``.
    """

    engine: str
    versions: tuple[str, ...]
    by_name: Mapping[str, Flag]

    def checked(self, extra: Mapping[str, Any], taken: Mapping[str, str]) -> dict[str, Any]:
        """``extra`` as it came, once every name and type is right.

        Args:
            taken: flags that Outrider sets itself, with what to use instead.

        Raises:
            InvalidInput: an unknown name (the nearest is named), one of Outrider's own, or a wrong type.
        """
        for name, value in extra.items():
            flag = self.by_name.get(name)
            if name in taken:
                raise InvalidInput(f"{self.engine}: extra[{name!r}] is set by Outrider", remedy=taken[name])
            if flag is None:
                near = difflib.get_close_matches(name.replace("-", "_"), self.by_name, 1)
                raise InvalidInput(
                    f"{self.engine} has no flag {name!r}",
                    why=f"none of its versions {', '.join(self.versions)} has it",
                    remedy=f"Did you mean {near[0]!r}?" if near else "A newer flag goes into arguments=[…], unchecked.",
                    details={"nearest": near[0] if near else None},
                )
            if not _fits(flag.type, value):
                raise InvalidInput(
                    f"{self.engine}: extra[{name!r}] = {value!r}",
                    why=f"it is {_KINDS[flag.type]}",
                    remedy="Correct it.",
                )
        return dict(extra)

    def check_version(self, extra: Mapping[str, Any], version: str) -> None:
        """Raises InvalidInput for a flag that this version of the engine does not have.

        Of a version that was not read, the nearest older and newer ones are asked, and one of them is enough.
        """
        wanted = ordered(version)
        older = [known for known in self.versions if ordered(known) <= wanted] or self.versions[:1]
        newer = [known for known in self.versions if ordered(known) >= wanted] or self.versions[-1:]
        for name in extra:
            flag = self.by_name[name]
            if not (flag.known_in(older[-1]) or flag.known_in(newer[0])):
                span = f"since {flag.since}" + (f", until {flag.until}" if flag.until else "")
                raise InvalidInput(
                    f"{self.engine} {version} has no flag {flag.word}",
                    why=f"known {span}",
                    remedy="Leave it out, or name another version in Environment(packages=…).",
                )

    def argv(self, values: Mapping[str, Any]) -> list[str]:
        """The words for values by name; None is left to the engine."""
        return [word for name, value in values.items() if value is not None for word in self.by_name[name].words(value)]


@cache
def flags(engine: str) -> Flags:
    """The flags of ``vllm`` or ``sglang``."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    read = yaml.load((_HERE / f"{engine}_flags.yaml").read_text(encoding="utf-8"), Loader=loader)
    known = [Flag(word, said["type"], str(said["since"]), said.get("until")) for word, said in read["flags"].items()]
    return Flags(engine, tuple(map(str, read["versions"])), {flag.name: flag for flag in known})


def ordered(version: str) -> tuple[int, ...]:
    """A version to compare by: its numbers (``0.5.15.post1`` is 0, 5, 15, 1), without what follows a ``+``."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0]))


def _fits(kind: str, value: Any) -> bool:
    if kind in ("switch", "bool"):
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind == "list":
        return isinstance(value, str) or (isinstance(value, Sequence) and bool(value))
    if kind == "json":
        return isinstance(value, Mapping) or (isinstance(value, str) and _is_json(value))
    return isinstance(value, {"int": int, "float": int | float, "str": str | int | float}[kind])


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


_KINDS = {
    "switch": "True or False",
    "bool": "True or False",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "list": "a text, or a list of them",
    "json": "a dictionary, or JSON as text",
}
