"""The pages show what was measured, and what was measured is of the drafter that ships."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.drafter import engine_tables, from_nothing, made, page, plot

from outrider.drafting.card import read_card
from outrider.models.sources import SHIPPED_DRAFTERS

SHIPPED = SHIPPED_DRAFTERS / page.SHIPPED


@pytest.mark.parametrize("path", page.PAGES, ids=lambda path: path.name)
def test_pages_show_the_latest_results(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert page.current(text) == text


def test_every_section_stands_on_a_page() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in page.PAGES)
    assert [name for name in page.SECTIONS if text.count(f"<!-- {name} results: begin -->") != 1] == []


def test_what_was_measured_is_what_ships() -> None:
    found = page.result("made")
    assert made.drafter(SHIPPED) == found["drafters"]["dflash"]
    weights = (SHIPPED / "model.safetensors").read_bytes()
    assert (len(weights), hashlib.sha256(weights).hexdigest()) == (
        found["drafters"]["dflash"]["bytes"],
        found["drafters"]["dflash"]["sha256"],
    )
    card = read_card(SHIPPED)
    assert page.result("evaluation")["dflash"] == card.evaluation
    assert found["target"]["digest"] == card.target.sha256
    assert found["data"]["manifest"] == card.data.manifest
    trained = [count for name, count in found["data"]["rows"].items() if name.startswith("train/")]
    assert sum(trained) == card.data.examples


def test_both_drafters_had_the_same_data_and_steps() -> None:
    first, second = page.result("made")["drafters"].values()
    assert (first["steps"], first["data"]) == (second["steps"], second["data"])


def engine_row(**changed: Any) -> dict[str, Any]:
    return {
        "engine": "vllm", "drafter": "dflash", "slice": "json", "prompts": 200, "tau_engine": 4.9, "agrees": True,
        "tau_reference": 5.0, "tau_difference": -0.1, "tau_difference_standard_error": 0.02,
        "decode_ms_with": 6.0, "decode_ms_without": 15.0,
        "decode_ms_over_none": 0.4,
    } | changed  # fmt: skip


def write(directory: Path, rows: list[dict[str, Any]], ratios: dict[str, float]) -> None:
    """A result of ``measure.py`` among the others."""
    for name in ("evaluation", "made", "kernel"):
        (directory / f"{name}.json").write_text(json.dumps(page.result(name)))
    machine = {"cpu": "x86_64", "cores": 2, "load_average": 1.25}
    found = {"machine": machine, "versions": {"vllm": "0.32.0"}, "rounds": 200, "rows": rows, "ratios": ratios}
    (directory / "latest.json").write_text(json.dumps(found))


def test_engine_and_reference_agree_or_do_not(tmp_path: Path) -> None:
    write(tmp_path, [engine_row(), engine_row(slice="chat", engine="llamacpp", agrees=False)], {})
    told = engine_tables.on_a_cpu(json.loads((tmp_path / "latest.json").read_text())).splitlines()[-2:]
    assert told[0].startswith(
        "| vLLM, bf16 | DFlash | JSON | 200 | 4.90 | 5.00 | -0.100 (agrees, standard error 0.020)"
    )
    assert told[1].startswith("| llama.cpp, Q4_1 | DFlash | chat | 200 |") and "does not agree" in told[1]


def test_what_misses_is_said_to_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = {"decode_ms_json_vllm_cpu_over_none": 0.6, "decode_ms_chat_vllm_cpu_over_none": 0.9, "tau_chat": 2.5}
    write(tmp_path, [], ratios)
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    verdicts = {line.split("`")[1]: line.split("|")[-2].strip() for line in page.ratios().splitlines()[2:]}
    assert verdicts["decode_ms_json_vllm_cpu_over_none"] == "missed"
    assert verdicts["decode_ms_chat_vllm_cpu_over_none"] == "held"
    assert verdicts["tau_chat"] == "missed", "on one of the two machines"
    assert verdicts["tau_dflash2_over_dflash"] == "missed"


def test_what_was_not_measured_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, [], {})
    (tmp_path / "latest.json").unlink()
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    assert page.SECTIONS["engine"]() == engine_tables.NOTHING
    assert page.ratios().count(engine_tables.NOTHING) == 2


def test_plots_are_small(tmp_path: Path) -> None:
    plot.acceptance(page.result("evaluation"), tmp_path / "acceptance.png")
    plot.kernel(page.result("kernel")["rows"], tmp_path / "kernel.png")
    for file in tmp_path.iterdir():
        assert file.read_bytes().startswith(b"\x89PNG")
        assert file.stat().st_size <= 150_000


def test_stages_of_a_run_end_where_its_log_says_so() -> None:
    log = "   42.0 s  target dequantised\n  218.8 s  data: {}\n  411.8 s  saved dflash\n  491.1 s  dflash\nslice\n"
    assert from_nothing.stages(log) == {"target": 42.0, "data": 176.8, "training": 193.0, "evaluation": 79.3}
    with pytest.raises(ValueError, match="evaluation did not end"):
        from_nothing.stages(log.partition("  491")[0])
