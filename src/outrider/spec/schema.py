"""The JSON Schema (draft 2020-12) of an endpoint's file, for editors and checks outside Outrider.

It accepts every form that a file may use and refuses unknown fields. The parser tells more: what a schema cannot say
(``max_replicas`` below ``min_replicas``), and which file, field and nearest spelling. It also takes a quoted number for
a number, which the schema, as an editor should, does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from outrider.spec.drafter import Drafter
from outrider.spec.endpoint import Endpoint

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ABOVE_ZERO = r"(?![\s0.a-zA-Z]*$)"
"""Goes before a pattern of quantities that must be above zero: some digit is another."""

Schema = dict[str, Any]


def endpoint_schema() -> Schema:
    """The schema of one document."""
    made = Endpoint.model_json_schema(mode="validation")
    definitions = made.pop("$defs")
    models = {model.__name__: model for model in _models(Endpoint)}
    for name, schema in ((Endpoint.__name__, made), *definitions.items()):
        for field, part in schema["properties"].items():
            _bound(part, models[name].model_fields[field])
    definitions[Drafter.__name__] = _drafter(definitions[Drafter.__name__])
    return {"$schema": DIALECT, "title": "Outrider endpoint", **_tidy({**made, "$defs": definitions})}


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _models(field.annotation)


def _bound(part: Schema, field: FieldInfo) -> None:
    """Write a quantity's bounds on its number; a pydantic schema with two input types loses them."""
    least = next((mark.ge for mark in field.metadata if getattr(mark, "ge", None) is not None), None)
    above = next((mark.gt for mark in field.metadata if getattr(mark, "gt", None) is not None), None)
    most = next((mark.le for mark in field.metadata if getattr(mark, "le", None) is not None), None)
    for form in _forms(part):
        form.pop("gt", None)
        form.pop("ge", None)
        form.pop("le", None)
        if form.get("type") in ("integer", "number"):
            form |= {"minimum": least} if least is not None else {}
            form |= {"exclusiveMinimum": above} if above is not None else {}
            form |= {"maximum": most} if most is not None else {}
        elif form.get("type") == "string" and "pattern" in form and above is not None:
            form["pattern"] = f"^{_ABOVE_ZERO}{form['pattern'].removeprefix('^')}"


def _forms(part: Schema) -> Iterator[Schema]:
    yield part
    for inner in part.get("anyOf", ()):
        yield from _forms(inner)


def _drafter(mapping: Schema) -> Schema:
    """A drafter may be written as a mapping, as its bare word or reference, or as the ``false`` that YAML 1.1 makes."""
    words = mapping["properties"]["source"]["anyOf"]
    return {"description": mapping.pop("description"), "anyOf": [*words, {"const": False}, mapping]}


def _tidy(value: Any) -> Any:
    """Descriptions as one line of Markdown; no titles that repeat the field's name, no defaults of whole parts."""
    if isinstance(value, list):
        return [_tidy(item) for item in value]
    if isinstance(value, str):
        return re.sub(r"``([^`]*)``", r"`\1`", " ".join(value.split())) if "``" in value or "\n" in value else value
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if not (key == "title" and isinstance(item, str))}
    if isinstance(kept.get("default"), dict):
        del kept["default"]
    return {key: _tidy(item) for key, item in kept.items()}
