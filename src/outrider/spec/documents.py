"""YAML documents as plain data: safe, and without the surprises (``off`` is no False, no key stands twice)."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import yaml

from outrider.errors import InvalidSpec, Problem

_BOOL = "tag:yaml.org,2002:bool"
_LARGEST = 100_000
"""Values of one document, those behind aliases counted each time: some hundred bytes of aliases can stand for more
values than any memory holds ("billion laughs")."""


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's booleans, so that ``drafter: off`` says off; a key stands once; no alias bombs."""

    def construct_document(self, node: yaml.Node) -> Any:
        _refuse_bomb(node)
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"{key.value!r} stands twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))


def _refuse_bomb(root: yaml.Node) -> None:
    sizes: dict[yaml.Node, int] = {}

    def size(node: yaml.Node) -> int:
        if node not in sizes:
            sizes[node] = _LARGEST  # met again while it is counted, it holds itself
            inner = node.value if isinstance(node, yaml.CollectionNode) else ()
            sizes[node] = 1 + sum(size(part) for item in inner for part in (item if type(item) is tuple else (item,)))
        return sizes[node]

    if size(root) > _LARGEST:
        message = f"it stands for more than {_LARGEST:,} values"
        raise yaml.constructor.ConstructorError(None, None, message, root.start_mark)


def _cause(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        return f"{where}{error.problem or error.context}"
    return " ".join(str(error).split())[:300]


@dataclass(frozen=True, slots=True)
class MarkedDocument:
    """One document of a YAML text: its data, and the nodes that know where each part of it stands."""

    data: Any
    node: yaml.Node

    def line(self, field: str) -> int:
        """The line, from 1, of a dotted field as :class:`~outrider.errors.Problem` names it, or of the nearest part
        around it that is there. Names may hold dots themselves."""
        return _line(self.node, field) + 1


def read_marked(text: str) -> list[MarkedDocument]:
    """The documents of a YAML text, whatever they hold; empty ones are left out.

    Raises:
        InvalidSpec: it is no YAML, or a key stands twice; ``details["line"]`` (from 1) where it is known.
    """
    loader, found = None, []
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            data = None if node is None else loader.construct_document(node)
            if node is not None and data is not None:
                found.append(MarkedDocument(data, node))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        refusal = InvalidSpec("The file is no YAML", [Problem(field="(file)", message=_cause(error))])
        mark = getattr(error, "problem_mark", None)
        if mark is not None:
            refusal.details["line"] = mark.line + 1
        raise refusal from error
    finally:
        if loader is not None:
            loader.dispose()
    return found


def read_documents(text: str) -> list[dict[str, Any]]:
    """The mappings of a YAML text, one a document; empty documents are left out.

    Raises:
        InvalidSpec: it is no YAML (says the line), a key stands twice, or a document is no mapping.
    """
    documents = [document.data for document in read_marked(text)]
    for number, document in enumerate(documents, 1):
        if not is_mapping(document):
            raise InvalidSpec(
                "The file holds something else",
                [no_mapping(document, number)],
                remedy="Begin with: model: org/name",
            )
    return documents


def is_mapping(document: Any) -> bool:
    """Whether a document is a mapping of names to values."""
    return isinstance(document, dict) and all(isinstance(key, str) for key in document)


def no_mapping(document: Any, number: int) -> Problem:
    """What is wrong with document ``number`` (from 1) of a text, which is no mapping of names."""
    shown = reprlib.repr(document)[:80]
    message = f"document {number} must be a mapping of names to values, not {shown}"
    return Problem(field="(document)", value=shown, allowed="a mapping", message=message)


def _line(node: yaml.Node, field: str, line: int | None = None) -> int:
    here = int(node.start_mark.line) if line is None else line
    if isinstance(node, yaml.MappingNode):
        entries = [(key, value) for key, value in node.value if _leads(str(key.value), field)]
        if entries:
            key, value = max(entries, key=lambda entry: len(str(entry[0].value)))
            return _line(value, field[len(str(key.value)) + 1 :], int(key.start_mark.line))
    elif isinstance(node, yaml.SequenceNode):
        index, _, rest = field.partition(".")
        if index.isdigit() and int(index) < len(node.value):
            inner = node.value[int(index)]
            return _line(inner, rest, int(inner.start_mark.line))
    return here


def _leads(key: str, field: str) -> bool:
    return field == key or field.startswith(f"{key}.")
