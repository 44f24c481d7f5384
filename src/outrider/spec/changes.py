"""What changed between two versions of nested plain data, field by field. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from outrider.spec.base import SpecModel


class Change(SpecModel):
    """One field that differs. A null means the same as a field that is not there."""

    path: str
    """Dotted path: ``scaling.min_replicas``."""
    before: Any = None
    """Its value before. None: it was not set, so it is added."""
    after: Any = None
    """Its value after. None: it is set no more, so it is removed."""

    @property
    def kind(self) -> str:
        """``added``, ``removed`` or ``changed``."""
        return "added" if self.before is None else "removed" if self.after is None else "changed"


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """The fields whose values differ, in the order of ``after``; those that only ``before`` has come last.

    Mappings are walked into; lists are compared whole. ``1``, ``1.0`` and ``true`` are three values, as in the file.
    """
    old, new = dict(_leaves(before, "")), dict(_leaves(after, ""))
    paths = [*new, *(path for path in old if path not in new)]
    return tuple(
        Change(path=path, before=old.get(path), after=new.get(path))
        for path in paths
        if _written(old.get(path)) != _written(new.get(path))
    )


def _leaves(data: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        elif value is not None:
            yield f"{prefix}{key}", value


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
