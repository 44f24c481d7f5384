"""Where in a YAML text each field stands, so that an error can name its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from outrider.errors import InvalidSpec


def field_lines(text: str) -> list[dict[str, int]]:
    """The line (from 1) of every field of every document, by dotted path; ``""`` is the document itself.

    Empty documents are left out, as in :func:`outrider.spec.documents.read_documents`. The text must be YAML.
    """
    nodes = [node for node in yaml.compose_all(text, yaml.SafeLoader) if node is not None and not _empty(node)]
    return [dict(_lines(node)) for node in nodes]


def line_of(lines: Mapping[str, int], field: str) -> int:
    """The line of a field, or of the nearest thing around it that stands in the file."""
    while field and field not in lines:
        field = field.rpartition(".")[0]
    return lines.get(field, 1)


def line_of_error(error: InvalidSpec) -> int | None:
    """The line that the YAML parser stopped at; None where it named none."""
    mark = getattr(error.__cause__, "problem_mark", None)
    return None if mark is None else mark.line + 1


def _lines(root: yaml.Node) -> Iterator[tuple[str, int]]:
    yield "", root.start_mark.line + 1
    seen: set[int] = set()  # an alias may lead back to what is around it
    waiting = [("", root)]
    while waiting:
        path, node = waiting.pop()
        if not isinstance(node, yaml.MappingNode) or id(node) in seen:
            continue
        seen.add(id(node))
        for key, value in node.value:
            inner = f"{path}.{key.value}" if path else str(key.value)
            yield inner, key.start_mark.line + 1
            waiting.append((inner, value))


def _empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
