"""YAML documents as plain data: safe, and without the surprises (``off`` is no False, no key stands twice)."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Hashable
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


def read_documents(text: str) -> list[dict[str, Any]]:
    """The mappings of a YAML text, one a document; empty documents are left out.

    Raises:
        InvalidSpec: it is no YAML (says the line), a key stands twice, or a document is no mapping.
    """
    try:
        documents = [found for found in yaml.load_all(text, _Loader) if found is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = _cause(error)
        raise InvalidSpec("The file is no YAML", [Problem(field="(file)", message=message)]) from error
    for number, document in enumerate(documents, 1):
        if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
            shown = reprlib.repr(document)[:80]
            message = f"document {number} must be a mapping of names to values, not {shown}"
            problem = Problem(field="(document)", value=shown, allowed="a mapping", message=message)
            raise InvalidSpec("The file holds something else", [problem], remedy="Begin with: model: org/name")
    return documents
