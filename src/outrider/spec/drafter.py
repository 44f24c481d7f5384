"""Which draft model speculates for the target."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, field_validator, model_validator

from outrider.spec.base import SpecModel

WORDS = ("auto", "off", "ngram", "mtp")
"""The drafters that are named by a word; all others are references."""


def _written(schema: dict[str, Any]) -> None:
    """The two kinds of text that a source may be, as JSON Schema."""
    del schema["type"]
    schema["anyOf"] = [{"enum": list(WORDS)}, {"type": "string", "pattern": r"^(hf|path|outrider):\S"}]


class Drafter(SpecModel):
    """``auto`` (the recipe's, where it pays), ``off``, ``ngram``, ``mtp``, ``hf:…``, ``path:…``, ``outrider:…``."""

    source: str = Field(default="auto", json_schema_extra=_written)
    """A word or a reference. auto: speculation is used where the recipe says that it pays, since where it does not it
    makes every token slower."""

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        if value is False:  # what YAML 1.1 readers make of a bare `off`
            return {"source": "off"}
        return {"source": value} if isinstance(value, str) else value

    @field_validator("source")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in WORDS and not (re.fullmatch(r"(hf|path|outrider):\S.*", value) and value.isprintable()):
            raise ValueError(f"one of {', '.join(WORDS)}, hf:org/name, path:/directory or outrider:name")
        return value
