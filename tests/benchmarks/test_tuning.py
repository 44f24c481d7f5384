"""The benchmark's traffic is the same each time, its ratios say what they are named, and the guide shows its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.tuning import measure, page, workloads

from outrider.tuning.workload import read_workload


def test_the_workload_is_read_and_the_same_each_time(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        file = workloads.write(tmp_path / name, concurrency=2)
        found = read_workload(str(file), concurrency=None, usual=1)
        assert (found.concurrency, {kind.name: kind.share for kind in found.kinds}) == (2, {"chat": 0.5, "json": 0.5})
        made.append([kind.trace for kind in found.kinds])
    assert made[0] == made[1]
    chat, text = made[0]
    assert len({str(one.messages) for one in (*chat, *text)}) > 80, "hardly a prompt comes twice"


def row(kind: str, drafting: str, speedup: float | None, *, tau: float = 2.0) -> dict[str, Any]:
    return {"kind": kind, "drafting": drafting, "speedup": speedup, "acceptance_length": tau}


def test_ratios_say_what_is_divided_by_what() -> None:
    slices = [row("chat", "off", 1.0), row("chat", "ngram 2", 0.8), row("chat", "ngram 4", 0.5)]
    slices += [row("json", "off", 1.0), row("json", "ngram 2", 1.2), row("json", "ngram 4", 2.0)]
    slices += [row("chat", "ngram 8", 1.1, tau=1.0)]  # nothing was accepted: chance
    compared = {
        "stage": "threads",
        "other": "threads=2, speculation off",
        "cost_other_over_stands": {"value": 3.5, "low": 3.0, "high": 4.0},
    }
    assert measure._ratios({"engine": {"slices": slices, "comparisons": [compared]}}) == {
        "itl_engine_chat_plain_over_best_drafting": 0.8,
        "itl_engine_json_plain_over_best_drafting": 2.0,
        "speedup_engine_json_over_chat": 2.5,
        "seconds_a_token_engine_2_threads_over_1": 3.5,
    }


def test_the_guide_shows_the_latest_result() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.current(text) == text
