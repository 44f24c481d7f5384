"""What the pages say of the shipped drafter in engines: on a CPU, on a GPU, and on prompts of another kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outrider.tuning.report import table

NOTHING = "Not measured on this version yet."
SLICES = {"chat": "chat", "code": "code-like", "json": "JSON", "all": "all three"}
METHODS = {"n-gram": "n-gram", "dflash": "DFlash", "dflash2": "DFlash 2"}
_ENGINES = {"vllm": "vLLM, bf16", "llamacpp": "llama.cpp, Q4_1", "sglang": "SGLang, bf16"}
Json = Mapping[str, Any]


def on_a_cpu(found: Json | None) -> str:
    """τ of each engine beside the reference's, and what a token costs with the drafter and without."""
    if found is None or not found["rows"]:
        return NOTHING
    rows = [
        (_ENGINES[one["engine"]], METHODS[one["drafter"]], SLICES[one["slice"]], f"{one['prompts']}",
         f"{one['tau_engine']:.2f}", f"{one['tau_reference']:.2f}", _difference(one), f"{one['decode_ms_with']:.1f}",
         f"{one['decode_ms_without']:.1f}", f"{one['decode_ms_over_none']:.2f}")
        for one in found["rows"]
    ]  # fmt: skip
    machine, versions = found["machine"], found["versions"]
    named = " and ".join(
        f"{_ENGINES[name].partition(',')[0]} {versions[name]}" for name in _ENGINES if name in versions
    )
    titles = ("engine", "drafter", "slice", "prompts", "τ engine", "τ reference", "difference", "ms a token with",
              "without", "with ÷ without")  # fmt: skip
    return (
        f"{named} on {machine['cores']} cores ({machine['cpu']}), load average {machine['load_average']:.2f}; one"
        f" request in flight, greedy.\n\n{table(titles, rows)}"
    )


def _difference(one: Json) -> str:
    error = one["tau_difference_standard_error"]
    chance = "" if error is None else f", standard error {error:.3f}"
    return f"{one['tau_difference']:+.3f} ({'agrees' if one['agrees'] else 'does not agree'}{chance})"


def on_a_gpu(found: Json | None) -> str:
    """The same for engines on a GPU, with throughput under load."""
    if found is None:
        return NOTHING
    rows = [
        (_ENGINES[one["engine"]], SLICES[one["slice"]], f"{one['prompts']}", f"{one['decode_ms_with']:.2f}",
         f"{one['decode_ms_without']:.2f}", f"{one['decode_ms_over_none']:.2f}",
         f"{one['output_tps_at_once_over_none']:.2f}", f"{one['tau_engine']:.2f}", f"{one['tau_reference']:.2f}",
         f"{one['paired_prompts']}", f"{100 * one['answers_equal']:.0f} %")
        for one in found["rows"]
    ]  # fmt: skip
    titles = ("engine", "slice", "prompts", "ms a token with", "without", "with ÷ without",
              f"tokens/s of {found['at_once']} requests, with ÷ without", "τ engine", "τ reference", "paired",
              "equal answers")  # fmt: skip
    versions, pages = found["versions"], found["findings"]
    said = ", ".join(f"{_ENGINES[name].partition(',')[0]} {versions[name]}" for name in sorted(pages))
    whole = ", ".join(f"{_ENGINES[name].partition(',')[0]} {pages[name]['tau_page']:.2f}" for name in sorted(pages))
    return (
        f"{found['machine']['gpu']}; {said}, each started by Outrider's own class.\n\n{table(titles, rows)}\n\n"
        f"τ over all prompts, of each engine's own metrics page: {whole}."
    )


def on_other_prompts(found: Json | None) -> str:
    """τ on prompts that the target did not write."""
    if found is None:
        return NOTHING
    names = {"chat": "questions", "json": "JSON to be said again"}
    rows = [
        (names[one["slice"]], f"{one['records']}", f"{one['blocks']:,}",
         f"{one['tau']['value']:.2f} ({one['tau']['low']:.2f}–{one['tau']['high']:.2f})")
        for one in found["slices"]
        if one["slice"] in names
    ]  # fmt: skip
    return table(("prompts", "answers", "blocks", "τ (95 %)"), rows)
