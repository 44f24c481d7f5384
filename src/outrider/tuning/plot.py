"""The plot of a tuning: ITL and τ over concurrency for each way to draft. Needs matplotlib (the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = (
    *("#444444", "#2458a6", "#d1702b", "#3a8f4d", "#8c4aa6", "#b03a48", "#6b6b2f"),
    *("#1fa3a8", "#d9a514", "#e377c2", "#7fb2e5", "#6b3a1e"),
)
"""Plain decoding is grey."""
_MARKERS = "os^D"
"""After so many ways to draft as there are colours, these begin anew with the next marker."""
_COLUMNS = 6
"""Of the legend, so many as stand side by side in the picture's width."""


def available() -> bool:
    """Whether matplotlib is installed."""
    from importlib.util import find_spec

    return find_spec("matplotlib") is not None


def plot(data: Mapping[str, Any], path: Path, *, title: str) -> None:
    """Draw a tuning (:func:`~outrider.tuning.findings.as_dict`) into a file; see :func:`drawn`."""
    drawn(data, title=title).savefig(path, dpi=90)


def drawn(data: Mapping[str, Any], *, title: str) -> Figure:
    """A tuning's figure, a row of panels for each kind of traffic.

    Left: median ITL. Right: τ as a line, the break-even τ dashed in the same colour: above its dashes a way to draft
    pays.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    points = data["curves"]
    kinds = [kind for kind in dict.fromkeys(point["kind"] for point in points) if kind is not None] or [None]
    names = list(dict.fromkeys(point["drafting"] for point in points))
    count = len(_COLOURS)
    styles = {name: (_COLOURS[n % count], _MARKERS[n // count % len(_MARKERS)]) for n, name in enumerate(names)}
    figure = Figure(figsize=(9, 0.9 + 2.8 * len(kinds)), layout="constrained")
    axes = figure.subplots(len(kinds), 2, squeeze=False)
    for row, kind in zip(axes, kinds, strict=True):
        mine = [point for point in points if point["kind"] == kind]
        _row(list(row), mine, styles, f"{kind}: " if kind is not None else "")
    figure.suptitle(title, fontsize=10)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    handles, labels = [*handles, Line2D([], [], color="black", linestyle="--", marker="x")], [*labels, "break-even"]
    columns = min(len(labels), _COLUMNS)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)
    return figure


def _row(
    axes: Sequence[Axes], points: Sequence[Mapping[str, Any]], styles: Mapping[str, tuple[str, str]], prefix: str
) -> None:
    for name, (colour, marker) in styles.items():
        mine = sorted((point for point in points if point["drafting"] == name), key=lambda one: one["concurrency"])
        levels = [point["concurrency"] for point in mine]
        label = "plain" if name == "off" else name
        line: dict[str, Any] = {"color": colour, "marker": marker}
        axes[0].plot(levels, [1000 * point["itl_p50"] for point in mine], label=label, **line)
        if name != "off":
            axes[1].plot(levels, [point["acceptance_length"] for point in mine], **line)
            even = [(point["concurrency"], point["break_even"]) for point in mine if point["break_even"] is not None]
            axes[1].plot([level for level, _ in even], [value for _, value in even], "x--", color=colour)
    axes[0].set_title(f"{prefix}inter-token latency, ms (p50)", fontsize=9)
    axes[1].set_title(f"{prefix}acceptance length τ, tokens a step (dashed: break-even)", fontsize=9)
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
