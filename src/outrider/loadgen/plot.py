"""Plots of a benchmark's result. Needs matplotlib (the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outrider.errors import InvalidInput, MachineFault
from outrider.loadgen.statistics import quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANELS = (("ttft", "time to first token"), ("itl", "inter-token latency"), ("e2e", "whole request"))
_COLOURS = ("#2458a6", "#d1702b")
_FORMATS = (".png", ".svg", ".pdf")


def check_plot(path: Path) -> None:
    """Refuse what :func:`plot` could not write, before a benchmark runs for it.

    Raises:
        InvalidInput: no file name that ends in png, svg or pdf.
        MachineFault: matplotlib is not installed.
    """
    if path.suffix.lower() not in _FORMATS:
        raise InvalidInput(f"{path} is no plot", why=f"its name ends in {path.suffix or 'nothing'}",
                           remedy="Let it end in .png, .svg or .pdf.")  # fmt: skip
    try:
        import matplotlib as _  # noqa: F401
    except ImportError as error:
        raise MachineFault("A plot needs matplotlib", why=str(error),
                           remedy="Install it with: pip install 'outrider[plot]'") from error  # fmt: skip


def plot(result: Mapping[str, Any], path: Path, *, title: str) -> None:
    """Draw a result (:meth:`~outrider.loadgen.benchmark.Result.as_dict`) into a file.

    Several loads: each measure over the load, p50 as a line and p95 above it, one colour a target. One load: the
    share of requests that were at most so slow.
    """
    from matplotlib.figure import Figure

    loads = list(dict.fromkeys(row["load"] for row in result["rows"]))
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    axes = figure.subplots(1, 3)
    draw = _over_loads if len(loads) > 1 else _distributions
    draw(result, list(axes))
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=110)


def _over_loads(result: Mapping[str, Any], axes: Sequence[Axes]) -> None:
    labels = [target["label"] for target in result["targets"]]
    for label, colour in zip(labels, _COLOURS, strict=False):
        rows = [row for row in result["rows"] if row["target"] == label]
        loads = [row["concurrency"] or row["rate"] for row in rows]
        for axis, name in zip(axes, ("ttft", "itl"), strict=False):
            unit = 1000 if name == "itl" else 1
            axis.plot(loads, [unit * row[name]["p50"]["value"] for row in rows], "o-", color=colour, label=label)
            axis.plot(loads, [unit * row[name]["p95"]["value"] for row in rows], "^:", color=colour)
        rates = [row["output_tps"] for row in rows]
        axes[2].plot(loads, [rate["value"] for rate in rates], "o-", color=colour, label=label)
        low = [rate["low"] if rate["low"] is not None else rate["value"] for rate in rates]
        high = [rate["high"] if rate["high"] is not None else rate["value"] for rate in rates]
        axes[2].fill_between(loads, low, high, color=colour, alpha=0.15, linewidth=0)
    words = "requests in flight" if result["rows"][0]["concurrency"] else "requests/s"
    titles = (
        "time to first token, s (p50, p95 dotted)",
        "inter-token latency, ms (p50, p95 dotted)",
        "output tokens/s",
    )
    for axis, text in zip(axes, titles, strict=True):
        axis.set_title(text, fontsize=9)
        axis.set_xlabel(words, fontsize=8)
        _dress(axis, legend=len(labels) > 1)


def _distributions(result: Mapping[str, Any], axes: Sequence[Axes]) -> None:
    labels = [target["label"] for target in result["targets"]]
    for axis, (name, words) in zip(axes, _PANELS, strict=True):
        unit, factor = ("ms", 1000) if name == "itl" else ("s", 1)
        for index, (label, colour) in enumerate(zip(labels, _COLOURS, strict=False)):
            mine = (request[name] for request in result["requests"] if request["target"] == index)
            values = sorted(factor * value for value in mine if value is not None)
            if not values:
                continue
            shares = [(rank + 1) / len(values) for rank in range(len(values))]
            axis.step(values, shares, where="post", color=colour, label=label)
            axis.axvline(quantile(values, 0.95), color=colour, linestyle=":", linewidth=1)
        axis.set_title(f"{words}, {unit} (p95 dotted)", fontsize=9)
        axis.set_ylabel("share of requests", fontsize=8)
        axis.set_ylim(0, 1.02)
        _dress(axis, legend=len(labels) > 1, zero=False)


def _dress(axis: Axes, *, legend: bool, zero: bool = True) -> None:
    if zero:
        axis.set_ylim(bottom=0)
    axis.grid(visible=True, alpha=0.3)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    if legend:
        axis.legend(fontsize=7, frameon=False)
