"""Bad recipes in the user's own directory: each command that reads the catalog says which file and which field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from outrider.recipes.library import SHIPPED
from tests.matrix.house import House, command
from tests.matrix.refusal import Refusal, check_refusal

_GOOD: dict[str, Any] = next(yaml.safe_load_all((SHIPPED / "smollm2.yaml").read_text()))


class Case(NamedTuple):
    """The file's text, or what is changed in a good recipe, and a word of the refusal."""

    content: str | bytes | Callable[[dict[str, Any]], object]
    says: str


def _with(**fields: Any) -> Callable[[dict[str, Any]], object]:
    return lambda recipe: recipe.update(fields)


CASES = {
    "no YAML": Case("id: [", "line 1, column 6"),
    "no UTF-8": Case(b"id: \xff\xfe", "no UTF-8 text"),
    "a list": Case("- id: x", "a mapping of names to values"),
    "a key twice": Case("id: a\nid: b", "stands twice"),
    "nothing but an id": Case("id: a", "required"),
    "another schema version": Case(_with(schema_version=2), "schema_version"),
    "an unknown field": Case(_with(flagz={}), "did you mean 'flags'"),
    "an id with spaces": Case(_with(id="My Recipe"), "id = 'My Recipe'"),
    "version 0": Case(_with(version=0), "version"),
    "no weights": Case(_with(weights=[]), "weights"),
    "weights of no scheme": Case(_with(weights=[{"reference": "ftp:x"}]), "reference"),
    "a digest that is none": Case(_with(weights=[{"reference": "hf:a/b", "sha256": "12"}]), "64 lower-case"),
    "an unknown engine": Case(lambda recipe: recipe["engine"].update(name="llama"), "engine.name"),
    "an unknown kind of hardware": Case(_with(hardware={"kind": "tpu", "min_memory_bytes": 1}), "hardware.kind"),
    "a GPU of no model": Case(_with(hardware={"kind": "gpu", "min_memory_bytes": 1}), "needs a gpu"),
    "a flag without a reason": Case(_with(flags={"context": {"value": 512}}), "reason"),
    "limits of nothing": Case(_with(limits={"max_context": 0, "max_concurrency": 1}), "max_context"),
    "a curve that falls": Case(_with(capacity_curve=[{"concurrency": 2}, {"concurrency": 1}]), "must rise"),
    "measured by nobody": Case(_with(provenance={"status": "measured"}), "needs when, tool, command and machine"),
    "one id twice": Case("---\n".join([yaml.safe_dump(_GOOD)] * 2), "stands twice in the file"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_bad_recipe(case: Case, house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = case.content
    if callable(content):
        recipe = yaml.safe_load(yaml.safe_dump(_GOOD))
        content(recipe)
        content = yaml.safe_dump(recipe)
    (tmp_path / "mine.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.setenv("OUTRIDER_RECIPES", str(tmp_path))
    done = command("recipe", "list", "--json")
    check_refusal(Refusal.of_json(done.out, done.code), "invalid_recipe", case.says)
    assert "mine.yaml" in done.out


@pytest.mark.parametrize("where", ["{files}/nowhere", "{files}/empty"])
def test_recipes_that_are_nowhere(where: str, house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTRIDER_RECIPES", house.fill(where))
    done = command("recipe", "list", "--json")
    check_refusal(Refusal.of_json(done.out, done.code), "invalid_recipe", "OUTRIDER_RECIPES")
