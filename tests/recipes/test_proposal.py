"""What a spec would change, from what stands."""

from __future__ import annotations

import ast
from typing import Any

from outrider.recipes.library import load_catalog
from outrider.recipes.plan import Plan
from outrider.recipes.planner import plan
from outrider.recipes.proposal import Proposal, Standing, propose
from outrider.recipes.render import render
from outrider.spec.endpoint import Endpoint, parse
from outrider.spec.inventory import Inventory

MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
MACHINE = Inventory(cores=2, memory_bytes=8 << 30, disk_free_bytes=50 << 30, engines={"llamacpp": "1"})


def _made(**more: Any) -> tuple[Endpoint, Plan, str]:
    spec = parse({"model": MODEL, "name": "small", **more})
    found = plan(spec, MACHINE, load_catalog([]))
    return spec, found, render(found, version="1")


def _standing(*, current: bool = False, edited: bool = False, **more: Any) -> Standing:
    spec, found, source = _made(**more)
    return Standing(
        spec=spec.model_dump(mode="json"),
        plan=None if edited else found.model_dump(mode="json"),
        source=source,
        revision=3,
        generation=5,
        current=current,
        edited=edited,
    )


def _paths(found: Proposal) -> tuple[list[str], list[str]]:
    return [change.path for change in found.changes], [change.path for change in found.plan_changes]


def test_a_new_endpoint_is_made_of_what_is_no_default() -> None:
    found = propose(*_made(flags={"slots": 2}), None)
    assert (found.action, found.revision, found.generation) == ("created", None, None)
    assert [change.path for change in found.changes] == ["model", "name", "flags.slots"]
    led_to = {change.path: change.after for change in found.plan_changes}
    assert (led_to["engine"], led_to["flags.slots"]) == ("llamacpp", 2)
    assert "server.startup_timeout" not in led_to
    added = [line[1:] for line in found.source_diff.splitlines()[3:]]
    assert "\n".join(added) == _made(flags={"slots": 2})[2].rstrip("\n")
    ast.parse("\n".join(added))


def test_the_same_again_is_unchanged() -> None:
    found = propose(*_made(), _standing(current=True))
    assert (found.action, found.changes, found.plan_changes, found.source_diff) == ("unchanged", (), (), "")
    assert (found.revision, found.generation) == (3, 5)


def test_a_flag_changes_the_plan_and_its_line_of_the_file() -> None:
    found = propose(*_made(flags={"slots": 2}), _standing(current=True))
    spec, led_to = _paths(found)
    assert (found.action, spec) == ("changed", ["flags.slots"])
    assert {"flags.slots", "server.memory"} <= set(led_to)
    slots = next(change for change in found.plan_changes if change.path == "flags.slots")
    assert (slots.before, slots.after, slots.kind) == (4, 2, "changed")
    lines = found.source_diff.splitlines()
    assert lines[:2] == ["--- small/3/serve.py", "+++ small/new/serve.py"]
    assert "-    slots=4," in lines and "+    slots=2," in lines


def test_words_for_people_change_the_spec_alone() -> None:
    found = propose(*_made(description="mine"), _standing(current=True))
    assert found.action == "changed"
    assert _paths(found) == (["description"], [])
    assert found.source_diff == ""


def test_a_revision_that_failed_or_was_planned_otherwise_is_made_again() -> None:
    found = propose(*_made(), _standing(current=False))
    assert (found.action, found.changes) == ("changed", ())


def test_an_edited_file_is_told_of_and_would_be_replaced() -> None:
    found = propose(*_made(), _standing(edited=True))
    assert (found.action, found.source_edited, found.changes) == ("changed", True, ())
    assert "recipe" in _paths(found)[1]


def test_it_is_json_both_ways() -> None:
    found = propose(*_made(flags={"slots": 2}), _standing())
    assert Proposal.model_validate_json(found.model_dump_json()) == found
