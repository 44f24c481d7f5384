"""Prometheus text, version 0.0.4.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate

from outrider.metrics.histograms import BOUNDS, Histogram
from outrider.metrics.schema import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[Sequence[str], float | Histogram]
"""Label values, in the order of the metric's labels, and what was counted."""

_EDGES = (*(repr(bound) for bound in BOUNDS), "+Inf")


def render(families: Iterable[tuple[Metric, Iterable[Sample]]]) -> str:
    """Write metrics as text. A metric without a sample keeps its two head lines, so that its name can be found.

    Raises:
        ValueError: a sample has more or fewer label values than its metric has labels.
    """
    lines: list[str] = []
    for metric, samples in families:
        lines.append(f"# HELP {metric.name} {_escape_help(metric.help)}")
        lines.append(f"# TYPE {metric.name} {metric.kind.value}")
        for values, value in samples:
            labels = ",".join(f'{name}="{_escape(text)}"' for name, text in zip(metric.labels, values, strict=True))
            lines.extend(_sample(metric.name, labels, value))
    return "\n".join(lines) + "\n"


def merge(texts: Sequence[str], least: Collection[str] = ()) -> str:
    """Several processes' text of the same metrics as one: what is counted in each adds up.

    Args:
        texts: as :func:`render` wrote them.
        least: names of gauges of which the least counts, since they say the same of each process.
    """
    families: dict[str, tuple[list[str], dict[str, float]]] = {}
    for text in texts:
        head: list[str] = []
        for line in text.splitlines():
            if line.startswith("# HELP "):
                head, samples = families.setdefault(line.split(" ", 3)[2], ([], {}))
                head[:] = [line]
            elif line.startswith("# TYPE "):
                head.append(line)
            else:
                series, _, value = line.rpartition(" ")
                number = float(value) if "." in value or "e" in value else int(value)
                if series not in samples:
                    samples[series] = number
                elif series.partition("{")[0] in least:
                    samples[series] = min(samples[series], number)
                else:
                    samples[series] += number
    lines = [
        line
        for head, samples in families.values()
        for line in (*head, *(f"{series} {value!r}" for series, value in samples.items()))
    ]
    return "\n".join(lines) + "\n"


def _sample(name: str, labels: str, value: float | Histogram) -> Iterator[str]:
    if isinstance(value, Histogram):
        comma = "," if labels else ""
        for edge, count in zip(_EDGES, accumulate(value.counts), strict=True):
            yield f'{name}_bucket{{{labels}{comma}le="{edge}"}} {count}'
        braces = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braces} {value.total!r}"
        yield f"{name}_count{braces} {value.count}"
    else:
        yield f"{name}{{{labels}}} {value!r}" if labels else f"{name} {value!r}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _escape_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")
