from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any

import pytest
import yaml

from outrider.recipes.library import SHIPPED, recipe_files
from outrider.recipes.lint import Finding, RecipeFile, lint

TODAY = date(2026, 12, 1)
TEXT = (SHIPPED / "smollm2.yaml").read_text().partition("\n---")[0] + "\n"
ID = "smollm2-135m-instruct/llamacpp-cpu"


def check(text: str, *, known: list[RecipeFile] | None = None) -> list[Finding]:
    return lint([RecipeFile("a.yaml", text, -1)], known or [], today=TODAY)


def changed(change: Callable[[dict[str, Any]], object]) -> str:
    data = copy.deepcopy(yaml.safe_load(TEXT))
    change(data)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True)


def test_what_ships_has_no_finding() -> None:
    files = [RecipeFile(path.name, path.read_text(), n) for n, path in enumerate(recipe_files(SHIPPED))]
    assert files
    assert lint(files, today=TODAY) == []


@pytest.mark.parametrize(
    ("old", "new", "field", "says"),
    [
        ("precision: Q4_1", "precison: Q4_1", "precison", "did you mean 'precision'?"),
        ("version: 2\nmodel", "version: 0\nmodel", "version", "greater than or equal to 1"),
        ("parameters:", "parametres:", "model.facts.parametres", "did you mean 'parameters'?"),
        ("  threads:", "  threds:", "flags.threds", "llamacpp has no such flag (did you mean 'threads'?)"),
        ("    value: 4", "    value: four", "flags.slots", "'four': must be a whole number"),
        ("    value: 4", "    value: 0", "flags.slots", "must be 1 or more"),
        ("itl_p95: 0.0166", "itl_p95: 0.001", "capacity_curve.0.itl_p95", "0.001 is less than itl_p50 (0.0161)"),
        ("ttft_p95: 2.6887", "ttft_p95: 1", "capacity_curve.1.ttft_p95", "1 is less than ttft_p50 (2.6416)"),
        ("total_tps: 113.5", "total_tps: 30", "capacity_curve.0.total_tps", "30 is less than output_tps (37.8)"),
        ("{concurrency: 2,", "{concurrency: 1,", "capacity_curve.1.concurrency", "1 after 1: the curve rises"),
        ("ttft_p50: 1.3242", "ttft_p50: -1", "capacity_curve.0.ttft_p50", "greater than 0"),
        ("  machine: 2", "  note: 2", "(file)", "'note' stands twice"),
        ("  when: 2026-11-30\n", "", "provenance", "measured needs when, tool, command and machine"),
        ("status: measured", "status: published", "provenance", "published needs a url"),
        ("kind: cpu", "kind: gpu", "hardware.gpu", "required for hardware of kind gpu"),
        ("hf:QuantFactory/", "hf:a/QuantFactory/", "weights.1.reference", "a repository is org/name"),
        ("name: llamacpp", "name: llamacp", "engine.name", "did you mean 'llamacpp'?"),
    ],
)
def test_an_error_stands_with_its_line(old: str, new: str, field: str, says: str) -> None:
    assert TEXT.count(old) >= 1
    bad = TEXT.replace(old, new, 1)
    found = [finding for finding in check(bad) if finding.field == field]
    assert [finding.severity for finding in found] == ["error"]
    assert says in found[0].message
    line = bad.splitlines()[(found[0].line or 0) - 1]
    assert field.rpartition(".")[2].strip("()") in line or field.split(".")[0] in line or new.split("\n")[0] in line


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        (lambda r: r.update(id="other/llamacpp-cpu"), "id", f"did you mean {ID!r}?"),
        (lambda r: r.update(id="smollm2-135m/vllm-cpu"), "id", "does not name its engine, 'llamacpp'"),
        (lambda r: r.update(id="smollm2-135m/llamacpp-gpu"), "id", "does not name its hardware, 'cpu'"),
        (lambda r: r.update(stale_after=date(2026, 11, 30)), "stale_after", "2026-11-30 is over"),
        (lambda r: r["limits"].update(max_concurrency=2), "capacity_curve.2.concurrency", "beyond limits"),
    ],
)
def test_a_warning_is_no_error(change: Callable[[dict[str, Any]], object], field: str, says: str) -> None:
    (found,) = check(changed(change))
    assert (found.severity, found.field) == ("warning", field)
    assert says in found.message


def test_the_last_day_is_not_over() -> None:
    assert check(changed(lambda r: r.update(stale_after=TODAY))) == []


def test_a_word_that_is_no_choice_of_the_engine_is_an_error() -> None:
    flag = {"value": "q8_1", "reason": "r"}
    (found,) = check(changed(lambda r: r["flags"].update(cache_type_k=flag)))
    assert (found.severity, found.field) == ("error", "flags.cache_type_k")
    assert found.message.startswith("'q8_1': allowed: f32, ") and found.nearest == "q8_0"
    (found,) = check(changed(lambda r: r["flags"].update(flash_attention={"value": "onn", "reason": "r"})))
    assert "auto, disabled, enabled" in found.message


@pytest.mark.parametrize(
    ("engine", "version", "flag", "value", "says"),
    [
        ("vllm", "0.32.0", "gpu_memory_utilizatoin", 0.9, "no such flag"),
        ("vllm", "0.32.0", "async_scheduling", "yes", "must be true or false"),
        ("vllm", "0.24.0", "anthropic_disabled_thinking_effort", "low", "known since 0.32.0"),
        ("sglang", "0.5.15.post1", "boundary_reduction", "x", "known since 0.5.23"),
        ("sglang", "0.5.23", "boundary_reduction", "x", ""),
        ("sglang", "any", "boundary_reduction", "x", ""),
    ],
)
def test_flags_of_vllm_and_sglang_are_judged_by_version(
    engine: str, version: str, flag: str, value: object, says: str
) -> None:
    def other(recipe: dict[str, Any]) -> None:
        recipe["engine"] = {"name": engine, "version": version}
        recipe["id"] = f"smollm2-135m/{engine}"
        recipe["flags"] = {flag: {"value": value, "reason": "r"}}

    found = check(changed(other))
    assert [(f.field, says in f.message) for f in found] == ([(f"flags.{flag}", True)] if says else [])


@pytest.mark.parametrize(
    ("change", "field", "says"),
    [
        (lambda r: r["speculation"].update(method="eagle3"), "speculation.drafter", "required for eagle3"),
        (lambda r: r["speculation"].update(drafter="hf:a/b"), "speculation.drafter", "off has no drafter"),
        (
            lambda r: r.update(drafters=[{"method": "mtp", "tokens": 2, "acceptance_length": 3.1, "source": "x"}]),
            "drafters.0.acceptance_length",
            "3.1 is more than 2 drafted and the bonus token",
        ),
        (lambda r: r["model"]["facts"].update(kv_heads=10), "model.facts.kv_heads", "more than heads"),
        (lambda r: r["model"]["facts"].update(window_layers=31), "model.facts.layers", "31 layers by kind"),
        (lambda r: r["model"]["facts"].update(sources={"experts": "x"}), "model.facts", "no such fact is given"),
        (lambda r: r["provenance"].update(status="untested"), "capacity_curve", "what nobody ran has none"),
    ],
)
def test_parts_that_do_not_go_together(change: Callable[[dict[str, Any]], object], field: str, says: str) -> None:
    found = check(changed(change))
    assert (field, "error") in {(f.field, f.severity) for f in found}
    assert any(says in f.message for f in found)


def test_flags_are_judged_by_their_engine() -> None:
    def other(recipe: dict[str, Any]) -> None:
        recipe["engine"]["name"] = "vllm"
        recipe["id"] = "smollm2-135m/vllm"
        values = {"memory_share": 0.9, "seed": 7, "gpu_memory_utilization": 0.9, "prompt_cache_mib": 1}
        recipe["flags"] = {name: {"value": value, "reason": "r"} for name, value in values.items()}

    found = {finding.field: finding.message for finding in check(changed(other))}
    assert set(found) == {"flags.gpu_memory_utilization", "flags.prompt_cache_mib"}
    assert "Use memory_share=" in found["flags.gpu_memory_utilization"]


def test_every_problem_of_every_document_is_found_at_once() -> None:
    def worse(recipe: dict[str, Any]) -> None:
        recipe["version"] = 0
        recipe["flags"]["contxt"] = {"value": 1, "reason": "r"}
        recipe["capacity_curve"].reverse()
        recipe["weights"] = [{"reference": "ftp:x"}]

    found = check(f"{changed(worse)}---\n- a list\n---\n{changed(lambda r: r.pop('precision'))}")
    assert [finding.field for finding in found] == [
        "version",
        "weights.0.reference",
        "flags.contxt",
        "capacity_curve.1.concurrency",
        "capacity_curve.2.concurrency",
        "(document)",
        "precision",
        "id",
    ]
    assert found[2].nearest == "context"
    assert "stands twice in the file, first on line 2" in found[-1].message


def test_a_dotted_flag_has_its_own_line() -> None:
    text = changed(lambda r: r["flags"].update({"speculative.typs": {"value": "none", "reason": "r"}}))
    (found,) = check(text)
    assert found.nearest == "speculative.types"
    assert text.splitlines()[(found.line or 0) - 1] == "  speculative.typs:"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [("id: [", 1, "expected"), ("a: 1\na: 2", 2, "stands twice"), ("", None, "holds no recipe"), ("x", 1, "mapping")],
)
def test_what_is_no_recipe_at_all_is_one_error(text: str, line: int | None, says: str) -> None:
    (found,) = check(text)
    assert (found.severity, found.line) == ("error", line)
    assert says in found.message


def test_an_unreadable_file_is_one_error() -> None:
    (found,) = lint([RecipeFile("a.yaml", None, 0, "cannot be read: no right")], today=TODAY)
    assert (found.severity, found.message) == ("error", "cannot be read: no right")


def test_one_id_in_two_places_says_which_is_used() -> None:
    shipped = RecipeFile("shipped.yaml", TEXT, 5)
    (found,) = check(TEXT, known=[shipped])
    assert (found.severity, found.message) == ("warning", f"{ID!r} shadows shipped.yaml, which is searched later")
    (found,) = lint([shipped], [RecipeFile("own.yaml", TEXT, 1)], today=TODAY)
    assert found.message == f"{ID!r} is shadowed by own.yaml, which is searched first"
    both = lint([RecipeFile("b.yaml", TEXT, -1), RecipeFile("a.yaml", TEXT, -1)], today=TODAY)
    assert [(f.file, "is shadowed by b.yaml" in f.message) for f in both] == [("b.yaml", False), ("a.yaml", True)]


def test_broken_files_of_the_catalog_do_not_disturb() -> None:
    assert check(TEXT, known=[RecipeFile("x.yaml", "id: [", 1), RecipeFile("y.yaml", None, 2)]) == []


def test_an_id_names_the_number_and_kind_of_gpus() -> None:
    hardware = {"kind": "gpu", "gpu": "RTX 5090", "count": 2, "min_memory_bytes": 0}
    for how, warned in (("2xrtx-5090", False), ("2xrtx-5090-fp8-latency", False), ("rtx-5090", True), ("cpu", True)):
        text = changed(partial(dict[str, Any].update, id=f"smollm2-135m/llamacpp-{how}", hardware=hardware))
        assert [finding.field for finding in check(text) if "hardware" in finding.message] == ["id"] * warned


def test_a_slice_accepts_no_more_than_is_drafted() -> None:
    text = changed(lambda r: r["drafters"][0]["slices"][0].update(acceptance_length=9))
    (found,) = check(text)
    assert found.field == "drafters.0.slices.0.acceptance_length"
    assert "more than 7 drafted" in found.message
