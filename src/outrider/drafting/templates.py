"""Templates with typed slots, and short structured tasks composed of records and operations.

A template is text with slots ``{name:type}``; equal names hold equal values. A file lists templates outright, or
*records* (a sentence whose slots are fields) and *operations* (tasks on any record): each pair of them is one
template. Templates, never rows, are split: those of a held-out record are only ever measured on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from ..errors import InvalidDataset
from . import rendering
from .dataset import Split
from .values import KINDS

_SLOT = re.compile(r"\{(\w+):(\w+)\}")
_WORD = re.compile(r"\{(\w+)\}")
SHIPPED = Path(__file__).parent / "templates.yaml"
"""Tasks in JSON and code that the shipped drafter was trained and measured on."""


@dataclass(frozen=True)
class Template:
    """One task.

    Attributes:
        id: unique in its file.
        slice: ``json``, ``code``, or another kind of traffic.
        text: what the user says.
        split: whether it is trained or measured on.
        fields: for composed templates the record's fields, name → type.
        record: for composed templates the record's sentence.
        noun: for composed templates what the record is.
    """

    id: str
    slice: str
    text: str
    split: Split = "train"
    fields: Mapping[str, str] = field(default_factory=dict)
    record: str = ""
    noun: str = ""

    def fill(self, random: Random) -> str:
        """The text with every slot filled."""
        text = self.text
        if self.fields:
            rows = [
                {name: KINDS[kind](random) for name, kind in self.fields.items()} for _ in range(random.randint(2, 3))
            ]
            shown = rendering.views(self.noun, self.fields, rows, self.record, random)
            text = _WORD.sub(lambda match: shown[match[1]], text)
        values: dict[str, str] = {}
        return _SLOT.sub(lambda m: values.setdefault(m[1], KINDS[m[2]](random)), text)


def read(path: Path) -> list[Template]:
    """Templates of a YAML file.

    Raises:
        InvalidDataset: the file cannot be read, or a template is wrong; it is named.
    """
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
        found = [_listed(each) for each in document.get("templates", [])]
        found += _composed(document.get("records", []), document.get("operations", []))
    except (OSError, yaml.YAMLError, AttributeError, TypeError, KeyError) as error:
        raise InvalidDataset(f"The templates {path} cannot be read", why=f"{type(error).__name__}: {error}") from None
    for template in found:
        _check(template)
    return found


def _listed(document: Mapping[str, Any]) -> Template:
    split: Split = "held_out" if document.get("held_out") else "train"
    return Template(document["id"], document.get("slice", "task"), document["text"], split)


def _composed(records: Sequence[Mapping[str, Any]], operations: Sequence[Mapping[str, Any]]) -> list[Template]:
    return [
        Template(
            f"{operation['id']}/{record['id']}",
            operation["slice"],
            operation["text"],
            "held_out" if record.get("held_out") else "train",
            dict(_SLOT.findall(record["sentence"])),
            _SLOT.sub(r"{\1}", record["sentence"]),
            record["id"],
        )
        for record in records
        for operation in operations
    ]


def _check(template: Template) -> None:
    kinds = [*template.fields.values(), *(kind for _, kind in _SLOT.findall(template.text))]
    unknown = [kind for kind in kinds if kind not in KINDS]
    unknown += [word for word in _WORD.findall(template.text) if template.fields and word not in rendering.VIEWS]
    if unknown:
        raise InvalidDataset(
            f"The template {template.id} has a slot {unknown[0]!r}", remedy=f"Types are {', '.join(sorted(KINDS))}."
        )
    if not kinds:
        raise InvalidDataset(f"The template {template.id} has no slots", remedy="Write them {name:type}.")


def filled(templates: Sequence[Template], per_template: int, seed: int) -> Iterator[tuple[Template, str]]:
    """``per_template`` different fillings of each template, in turn; fewer where a template has no more."""
    random = Random(seed)
    seen: set[str] = set()
    for _ in range(per_template):
        for template in templates:
            text = template.fill(random)
            if text not in seen:
                seen.add(text)
                yield template, text
