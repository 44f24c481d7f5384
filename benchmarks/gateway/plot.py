"""The plot of a result: CPU per request, added latency and throughput, peer by peer.

    python -m benchmarks.gateway.plot [RESULT.json] [PLOT.png]

Runs in the environment of the extra ``bench-peers``, which has matplotlib.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_RESULTS = Path(__file__).with_name("results")
_PANELS = (
    ("CPU of the proxy, c = 16", "cpu_us_per_request", "µs a request", ("json_c16", "sse_c16")),
    ("Added latency, c = 1, median", "added", "ms over direct", ("json_c1", "sse_c1")),
    ("First byte of a stream, median", "first_byte_p50_ms", "ms", ("sse_c1", "sse_c16")),
    ("Throughput, c = 16", "requests_per_second", "requests/s", ("json_c16", "sse_c16")),
)


def draw(data: dict[str, Any], path: Path) -> None:
    """Draw a result into a PNG file; bars that would hide the others (LiteLLM's) make the axis logarithmic."""
    rows = {(row["peer"], row["load"]): row for row in data["rows"]}
    peers = list(dict.fromkeys(row["peer"] for row in data["rows"] if row["peer"] != "direct"))
    figure, axes = plt.subplots(2, 2, figsize=(11, 6.5), layout="constrained")
    for axis, (title, field, unit, loads) in zip(axes.flat, _PANELS, strict=True):
        for index, load in enumerate(loads):
            heights = [_value(rows, peer, load, field) for peer in peers]
            places = [place + 0.4 * index for place in range(len(peers))]
            bars = axis.bar(
                places, heights, width=0.38, label=load.partition("_")[0].upper() + f" {load.split('_')[-1]}"
            )
            axis.bar_label(bars, labels=[_label(height) for height in heights], fontsize=8)
        axis.set_title(title)
        axis.set_ylabel(unit)
        axis.set_yscale("log")
        axis.set_xticks([place + 0.2 for place in range(len(peers))], peers)
        axis.margins(y=0.15)
        axis.legend(fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=90)


def _label(height: float) -> str:
    if not height:
        return "–"
    return f"{height:,.0f}" if height >= 100 else f"{height:.2g}"


def _value(rows: dict[tuple[str, str], Any], peer: str, load: str, field: str) -> float:
    row = rows.get((peer, load))
    if row is None:
        return 0.0
    if field != "added":
        return float(row[field] or 0.0)
    direct = rows["direct", load]["total_p50_ms"]
    return max(0.0, float(row["total_p50_ms"]) - float(direct)) if row["total_p50_ms"] else 0.0


if __name__ == "__main__":
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else _RESULTS / "latest.json"
    draw(json.loads(source.read_text()), Path(sys.argv[2]) if len(sys.argv) > 2 else _RESULTS / "latest.png")
