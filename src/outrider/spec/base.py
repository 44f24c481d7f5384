"""What every part of a spec is: frozen, strict about unknown keys, of finite numbers and writable text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator


class SpecModel(BaseModel):
    """Base of the spec's models. Attribute docstrings become field descriptions, and so the JSON Schema's."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, protected_namespaces=(), allow_inf_nan=False
    )

    @field_validator("*", mode="before")
    @classmethod
    def _encodable(cls, value: Any) -> Any:
        # JSON and YAML can escape half a character (a lone surrogate), which no file or reply can hold.
        if not _is_encodable(value):
            raise ValueError("text without lone surrogates")
        return value


def _is_encodable(value: Any) -> bool:
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
    if isinstance(value, Mapping):
        return all(_is_encodable(key) and _is_encodable(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(_is_encodable(item) for item in value)
    return True
