"""A tuning as a page: what won, what was tried, what each kind of traffic gains, where drafting pays. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from outrider.tuning.search import LEAST_GAIN

_UNKNOWN = "–"


def markdown(data: Mapping[str, Any], *, plot: str | None = None) -> str:
    """A tuning (:func:`~outrider.tuning.findings.as_dict`, with ``machine`` and ``date``) as Markdown.

    Args:
        plot: file name of the plot beside the page; None: there is none.
    """
    parts = [
        f"# {data['endpoint']}: tuned on {data['date']}",
        _summary(data),
        "## What was compared",
        _comparisons(data["comparisons"]),
        "## By kind of traffic",
        slices_table(data["slices"]),
        _slices_words(data),
        "## Drafting over concurrency",
        *([f"![ITL and τ over concurrency for each way to draft]({plot})"] if plot else []),
        curves_table([point for point in data["curves"] if point["kind"] is None]),
        "A step is ITL × τ. The break-even is the τ from which on a way to draft gains: its step ÷ plain decoding's. It"
        f" pays where it gains more than {LEAST_GAIN:.0%}.",
        "## Every setting tried",
        *(part for stage, rows in data["stages"].items() for part in (f"### {stage}", _tried(rows))),
        _unfinished(data["unfinished"]),
        _method(data),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def verdict_words(data: Mapping[str, Any]) -> str:
    """One sentence: what won and by how much, or that nothing did."""
    lost = any(row["failure"] for rows in data["stages"].values() for row in rows)
    if not data["comparisons"] and not lost:
        return "Nothing was compared: there was nothing to vary, or the budget did not suffice for two settings."
    looked = [one["other"] for one in data["comparisons"] if one["won"]]
    if not data["improved"] and looked:
        return (
            f"Nothing is shown to be better than the present configuration ({data['present']['label']}): {looked[-1]}"
            " looked so, and was not confirmed."
        )
    if not data["improved"]:
        return (
            f"Nothing that was tried is better than the present configuration ({data['present']['label']}) by more"
            " than the noise."
        )
    told = f"Best: {data['best']['label']}."
    found = [one for one in data["comparisons"] if one["other"] == data["best"]["label"] and one["won"]]
    ratio = found[-1]["cost_other_over_stands"] if found else None
    if ratio is None:
        return told
    return (
        f"{told} A token takes {ratio['value']:.2f} times what it took with {found[-1]['stands']}"
        f" ({ratio['low']:.2f} to {ratio['high']:.2f}, waiting included)."
    )


def _summary(data: Mapping[str, Any]) -> str:
    work = data["workload"]
    shares = work["kinds"]
    kinds = ", ".join(f"{kind} {share:.0%}" if len(shares) > 1 else kind for kind, share in shares.items())
    return "\n".join(
        [
            verdict_words(data),
            "",
            f"- engine: {data['engine']}, recipe {data['recipe']}",
            f"- machine: {data['machine']}",
            f"- workload: {work['name']} ({kinds}), {work['concurrency']} in flight",
            f"- {len(data['trials'])} trials in {data['seconds']:.0f} s of {data['budget']:.0f} s, seed {data['seed']}",
        ]
    )


def _comparisons(found: Sequence[Mapping[str, Any]]) -> str:
    if not found:
        return "Nothing: the budget did not suffice for two settings, or there was nothing to vary."
    rows = []
    for one in found:
        words = "better" if one["better"] else "worse" if one["worse"] else "within the noise"
        rows.append(
            (one["stage"], one["other"], one["stands"], interval(one["cost_other_over_stands"]),
             f"{one['noise']:.1%}", words)
        )  # fmt: skip
    return table(("stage", "tried", "against", "seconds a token, ratio", "noise", "verdict"), rows)


def interval(ratio: Mapping[str, float] | None) -> str:
    """A ratio with its interval."""
    if ratio is None:
        return "too few requests"
    return f"{ratio['value']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f})"


def slices_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """τ and ms a token of each kind of traffic with each way to draft."""
    if not rows:
        return "Not measured: the budget ended before."
    cells = [
        (row["kind"], row["drafting"], f"{row['acceptance_length']:.2f}", f"{row['ms_per_token']:.2f}",
         _number(row["speedup"]), _number(row["break_even"]), _pays(row["pays"]))
        for row in rows
    ]  # fmt: skip
    return table(("traffic", "drafting", "τ", "ms/token", "speedup", "break-even τ", "pays"), cells)


def _slices_words(data: Mapping[str, Any]) -> str:
    """The best way to draft for each kind, in a sentence each."""
    found = []
    for kind in dict.fromkeys(row["kind"] for row in data["slices"]):
        rows = [row for row in data["slices"] if row["kind"] == kind and row["speedup"] is not None]
        drafted = [row for row in rows if row["drafting"] != "off" and row["acceptance_length"] > 1]
        if not drafted:
            continue
        best = max(drafted, key=lambda row: row["speedup"])
        if best["pays"]:
            found.append(f"- {kind}: {best['drafting']} decodes {best['speedup']:.2f} times as fast as plain decoding.")
        else:
            found.append(
                f"- {kind}: no drafting pays; the best, {best['drafting']}, decodes {best['speedup']:.2f} times as fast"
                " as plain decoding."
            )
    return "\n".join(found)


def curves_table(points: Sequence[Mapping[str, Any]]) -> str:
    """ITL, τ, step and break-even over concurrency."""
    if not points:
        return "Not measured: the budget ended before."
    cells = [
        (point["drafting"], str(point["concurrency"]), f"{1000 * point['itl_p50']:.2f}",
         f"{point['acceptance_length']:.2f}", f"{1000 * point['step']:.2f}", _number(point["break_even"]),
         _pays(point["pays"]), f"{point['output_tps']:.1f}")
        for point in points
    ]  # fmt: skip
    titles = ("drafting", "in flight", "ITL ms", "τ", "step ms", "break-even τ", "pays", "output tokens/s")
    return table(titles, cells)


def _tried(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = []
    for row in rows:
        figures = row["figures"]
        if row["failure"] or figures is None:
            cells.append((row["setting"]["label"], str(row["trials"]), "lost", row["failure"] or "cut short", "", ""))
            continue
        cells.append(
            (row["setting"]["label"], str(row["trials"]), f"{1000 * figures['cost_p50']:.2f}",
             _ms(figures["itl_p50"]), _ms(figures["ttft_p50"]), f"{row['spread']:.1%}")
        )  # fmt: skip
    titles = ("setting", "trials", "ms a token, waiting included", "ITL ms", "TTFT ms", "spread of turns")
    return table(titles, cells)


def _unfinished(lines: Sequence[str]) -> str:
    return "\n".join(["## Left undone", "", *(f"- {line}" for line in lines)]) if lines else ""


def _method(data: Mapping[str, Any]) -> str:
    rates = ", ".join(f"{kind} {rate:.3g}" for kind, rate in data["workload"]["rates"].items())
    return (
        "## How it was measured\n\n"
        f"Every trial is a replica of its own, started from the `serve.py` of its setting, under an open loop ({rates}"
        " requests/s) that has to end without a failed request; settings of a round are tried in turns, forwards and"
        " backwards, with the same prompts. Better means: the 95 % interval of the ratio of seconds a token lies below"
        f" 1, and the ratio is farther below it than two turns differ, and than {LEAST_GAIN:.0%}. τ is of the steps in"
        " which something was drafted, as engines count them."
    )


def table(titles: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; bars in cells are escaped."""
    lines = [list(titles), *([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)]
    head, *body = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join([head, "| " + " | ".join("---" for _ in lines[0]) + " |", *body])


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else f"{value:.2f}"


def _ms(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else f"{1000 * seconds:.2f}"


def _pays(value: bool | None) -> str:
    return _UNKNOWN if value is None else "yes" if value else "no"
