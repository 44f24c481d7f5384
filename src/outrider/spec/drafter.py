"""Which draft model speculates for the target."""

from __future__ import annotations

import re
from typing import Any

from pydantic import field_validator, model_validator

from outrider.spec.base import SpecModel

_WORDS = ("auto", "off", "ngram", "mtp")


class Drafter(SpecModel):
    """``auto`` (the recipe's, where it pays), ``off``, ``ngram``, ``mtp``, ``hf:…`` or ``path:…``."""

    source: str = "auto"
    """Default auto: speculation is used where the recipe's curve says that it pays."""

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        return {"source": value} if isinstance(value, str) else value

    @field_validator("source")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in _WORDS and not re.match(r"(hf|path):.", value):
            raise ValueError(f"one of {', '.join(_WORDS)}, hf:… or path:…")
        return value
