"""The measured part of ``docs/guides/tuning.md``, written from ``results/latest.json``.

    python -m benchmarks.tuning.page

What stands between the two marks on that page is replaced; a test sees to it that page and result agree.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outrider.tuning.report import interval, slices_table, table, verdict_words

RESULT = Path(__file__).with_name("results") / "latest.json"
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "tuning.md"
BEGIN, END = "<!-- tuning results: begin -->", "<!-- tuning results: end -->"
_NOTHING = "Not measured on this version yet."
_TITLES = {
    "llamacpp": "llama.cpp, Q4_1",
    "llamacpp-busy": "llama.cpp, Q4_1, while other processes keep every core busy",
    "vllm": "vLLM, bf16",
}


def section(data: Mapping[str, Any]) -> str:
    """The section, in Markdown."""
    machine = data["machine"]
    runs: Mapping[str, Mapping[str, Any]] = data["runs"]
    lines = [
        f"On {machine['cores']} cores of {machine['cpu']}, {machine['memory_bytes'] / 2**30:.0f} GiB, half chat, half"
        " JSON that repeats its prompt.",
    ]
    for name in sorted(runs, key=list(_TITLES).index):
        run = runs[name]
        taken = (
            f"{sum(row['trials'] for rows in run['stages'].values() for row in rows)} trials in {run['seconds']:.0f} s"
        )
        lines += ["", f"### {_TITLES[name]}", "", f"{verdict_words(run)} ({taken}.)"]
        if run["comparisons"]:
            lines += ["", _compared(run["comparisons"])]
        if lost := _lost(run["stages"]):
            lines += ["", *lost]
        if len({row["drafting"] for row in run["slices"]}) > 1:
            lines += ["", slices_table(run["slices"]), "", *_words(name, data["ratios"])]
            lines += ["", f"![ITL and τ over concurrency](../../benchmarks/tuning/results/tuned-{name}.png)"]
    return "\n".join(lines)


def _compared(comparisons: list[Mapping[str, Any]]) -> str:
    rows = [
        (
            one["stage"],
            one["other"],
            one["stands"],
            interval(one["cost_other_over_stands"]),
            "better" if one["better"] else "worse" if one["worse"] else "within the noise",
        )
        for one in comparisons
    ]
    return table(("stage", "tried", "against", "seconds a token, ratio", "verdict"), rows)


def _lost(stages: Mapping[str, list[Mapping[str, Any]]]) -> list[str]:
    """Settings that lost without a comparison, and why."""
    rows = [row for stage in stages.values() for row in stage if row["failure"]]
    return [f"- {row['setting']['label']} lost: {row['failure']}." for row in rows]


def _words(name: str, ratios: Mapping[str, float]) -> list[str]:
    """What the best drafting gains on each kind, and how much more on JSON."""
    chat = ratios.get(f"itl_{name}_chat_plain_over_best_drafting")
    text = ratios.get(f"itl_{name}_json_plain_over_best_drafting")
    if chat is None or text is None:
        return []
    more = ratios[f"speedup_{name}_json_over_chat"]
    return [
        f"The best drafting decodes chat {chat:.2f} times and repetitive JSON {text:.2f} times as fast as plain"
        f" decoding: {more:.2f} times as much on JSON as on chat."
    ]


def current(page: str) -> str:
    """The page with what the result says between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    measured = section(json.loads(RESULT.read_text(encoding="utf-8"))) if RESULT.exists() else _NOTHING
    return f"{before}{BEGIN}\n{measured}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
