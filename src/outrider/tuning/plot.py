"""The plot of a tuning: ITL and τ over concurrency for each way to draft. Needs matplotlib (the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#444444", "#2458a6", "#d1702b", "#3a8f4d", "#8c4aa6", "#b03a48", "#6b6b2f")
"""Plain decoding is grey."""


def available() -> bool:
    """Whether matplotlib is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def plot(data: Mapping[str, Any], path: Path, *, title: str) -> None:
    """Draw a tuning (:func:`~outrider.tuning.findings.as_dict`) into a file, a row of panels for each kind of traffic.

    Left: median ITL. Right: τ as a line, the break-even τ dashed in the same colour: above its dashes a way to draft
    pays.
    """
    from matplotlib.figure import Figure

    points = data["curves"]
    kinds = [kind for kind in dict.fromkeys(point["kind"] for point in points) if kind is not None] or [None]
    names = sorted({point["drafting"] for point in points}, key=lambda name: (name != "off", name))
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}
    figure = Figure(figsize=(9, 0.9 + 2.8 * len(kinds)), layout="constrained")
    axes = figure.subplots(len(kinds), 2, squeeze=False)
    for row, kind in zip(axes, kinds, strict=True):
        mine = [point for point in points if point["kind"] == kind]
        _row(list(row), mine, colours, f"{kind}: " if kind is not None else "")
    figure.suptitle(title, fontsize=10)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels) or 1, fontsize=8, frameon=False)
    figure.savefig(path, dpi=90)


def _row(axes: Sequence[Axes], points: Sequence[Mapping[str, Any]], colours: Mapping[str, str], prefix: str) -> None:
    for name, colour in colours.items():
        mine = sorted((point for point in points if point["drafting"] == name), key=lambda one: one["concurrency"])
        levels = [point["concurrency"] for point in mine]
        label = "plain" if name == "off" else name
        axes[0].plot(levels, [1000 * point["itl_p50"] for point in mine], "o-", color=colour, label=label)
        if name != "off":
            axes[1].plot(levels, [point["acceptance_length"] for point in mine], "o-", color=colour)
            even = [(point["concurrency"], point["break_even"]) for point in mine if point["break_even"] is not None]
            axes[1].plot([level for level, _ in even], [value for _, value in even], "x--", color=colour)
    axes[0].set_title(f"{prefix}inter-token latency, ms (p50)", fontsize=9)
    axes[1].set_title(f"{prefix}acceptance length τ (dashed: break-even)", fontsize=9)
    axes[0].set_ylim(bottom=0)
    axes[1].set_ylim(bottom=0.9)
    levels = sorted({point["concurrency"] for point in points})
    for axis in axes:
        axis.set_xscale("log", base=2)
        axis.set_xticks(levels, [str(level) for level in levels])
        axis.minorticks_off()
        axis.set_xlabel("requests in flight", fontsize=8)
        axis.grid(visible=True, alpha=0.3)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
