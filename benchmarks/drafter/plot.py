"""The plots of ``docs/reference/shipped-drafters.md``: acceptance by position, and the kernel's times.

    python -m benchmarks.drafter.plot

Writes ``results/acceptance.png`` from ``evaluation.json`` and ``results/kernel.png`` from ``kernel.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

RESULTS = Path(__file__).with_name("results")
_METHODS = {"n-gram": "#444444", "dflash": "#2458a6", "dflash2": "#d1702b"}
_WAYS = {"layers": "#444444", "torch": "#2458a6", "fused": "#d1702b"}
_METHOD_TITLES = {"n-gram": "n-gram", "dflash": "DFlash", "dflash2": "DFlash 2"}
_SLICES = {"chat": "chat", "code": "code-like", "json": "JSON"}
_MODES = {"called": "called", "graph": "as a CUDA graph"}
_WAY_TITLES = {"layers": "layer by layer", "torch": "one GEMM, then torch", "fused": "one GEMM, then one Triton kernel"}


def acceptance(found: Mapping[str, Any], path: Path) -> None:
    """Share of blocks whose first k drafts stood: a panel a slice, a line a method, its 95 % interval shaded."""
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    axes = figure.subplots(1, len(_SLICES), sharey=True)
    for axis, (name, title) in zip(axes, _SLICES.items(), strict=True):
        for method, colour in _METHODS.items():
            one = next(one for one in found[method]["slices"] if one["slice"] == name)
            _line(axis, one, colour, f"{_METHOD_TITLES[method]}, τ {one['tau']['value']:.2f}")
        axis.set_title(title, fontsize=9)
        axis.set_xlabel("k", fontsize=8)
        axis.set_ylim(0, 1)
        _plain(axis)
        axis.legend(loc="upper right", fontsize=7, frameon=False)
    axes[0].set_ylabel("share of blocks whose first k drafts all stood", fontsize=8)
    figure.savefig(path, dpi=110)


def _line(axis: Axes, one: Mapping[str, Any], colour: str, label: str) -> None:
    places = range(1, len(one["positions"]) + 1)
    values, low, high = ([position[name] for position in one["positions"]] for name in ("value", "low", "high"))
    axis.plot(places, values, "o-", color=colour, label=label, markersize=4)
    axis.fill_between(places, low, high, color=colour, alpha=0.2, linewidth=0)


def kernel(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Microseconds of a context projection, log axis: a row of panels a drafter's shape, a column a way to call it."""
    shapes, counts = (list(dict.fromkeys(row[name] for row in rows)) for name in ("drafter", "rows"))
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots(len(shapes), len(_MODES), sharey=True, squeeze=False)
    for line, shape in zip(axes, shapes, strict=True):
        for axis, (mode, title) in zip(line, _MODES.items(), strict=True):
            for number, (way, colour) in enumerate(_WAYS.items()):
                times = [row for row in rows if (row["drafter"], row["mode"], row["way"]) == (shape, mode, way)]
                places = [counts.index(row["rows"]) + 0.27 * (number - 1) for row in times]
                bars = axis.bar(places, [row["us"] for row in times], width=0.25, color=colour, label=_WAY_TITLES[way])
                axis.bar_label(bars, labels=[_microseconds(row["us"]) for row in times], fontsize=7)
            axis.set_yscale("log")
            axis.set_ylim(2, 4000)
            axis.set_title(f"{shape}, {title}", fontsize=9)
            axis.set_xticks(range(len(counts)), [f"{count} rows" for count in counts])
            _plain(axis)
        line[0].set_ylabel("µs", fontsize=8)
    figure.legend(
        *axes[0][0].get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=8, frameon=False
    )
    figure.savefig(path, dpi=110)


def _microseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _plain(axis: Axes) -> None:
    axis.grid(visible=True, axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """Draw both."""
    acceptance(json.loads((RESULTS / "evaluation.json").read_text()), RESULTS / "acceptance.png")
    kernel(json.loads((RESULTS / "kernel.json").read_text())["rows"], RESULTS / "kernel.png")


if __name__ == "__main__":
    main()
