"""A metrics page in the Prometheus text format, read leniently: what is no sample is passed over."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from outrider.metrics.distribution import Distribution

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'(?P<name>[a-zA-Z_]\w*)="(?P<value>(?:[^"\\]|\\.)*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of Prometheus text."""

    name: str
    labels: Mapping[str, str]
    value: float


def samples(text: str) -> list[Sample]:
    """The samples of a page in the Prometheus text format; what is none (comments, junk) is passed over."""
    found = []
    for line in text.splitlines():
        match = None if line.startswith("#") else _SAMPLE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        labels = {label["name"]: _unescape(label["value"]) for label in _LABEL.finditer(match["labels"] or "")}
        found.append(Sample(match["name"], labels, value))
    return found


class Page:
    """A page's samples by name. An engine of several ranks has one sample a rank; they are one engine here.

    Args:
        text: the page.
        prefix: what every name begins with, ``"vllm:"``.
        counted: of the samples of one name, those to add up; None: all of them.
    """

    def __init__(
        self, text: str, prefix: str, counted: Callable[[Sequence[Sample]], Sequence[Sample]] | None = None
    ) -> None:
        found: dict[str, list[Sample]] = {}
        for sample in samples(text):
            if sample.name.startswith(prefix) and not math.isnan(sample.value):
                found.setdefault(sample.name.removeprefix(prefix), []).append(sample)
        self._samples = {name: counted(every) if counted else every for name, every in found.items()}

    def total(self, name: str, **labels: str) -> float | None:
        """Sum over all samples with these labels; None: there is none, or it is infinite."""
        values = self._values(name, labels)
        return sum(values) if values and math.isfinite(sum(values)) else None

    def count(self, name: str, **labels: str) -> int | None:
        """:meth:`total` as a whole number."""
        value = self.total(name, **labels)
        return None if value is None else int(value)

    def mean(self, name: str, **labels: str) -> float | None:
        """Mean over the samples with these labels, for shares; None: there is none."""
        values = self._values(name, labels)
        return sum(values) / len(values) if values else None

    def by_position(self, name: str) -> tuple[int, ...]:
        """Counts by the label ``position``, from 0 on."""
        found: dict[int, int] = {}
        for sample in self._samples.get(name, ()):
            position = sample.labels.get("position", "")
            if position.isdecimal() and math.isfinite(sample.value):
                found[int(position)] = found.get(int(position), 0) + int(sample.value)
        return tuple(found[position] for position in sorted(found))

    def distribution(self, name: str) -> Distribution | None:
        """A histogram, all its label sets added; None: there is none, or their buckets differ."""
        sets: dict[frozenset[tuple[str, str]], dict[float, float]] = {}
        for sample in self._samples.get(f"{name}_bucket", ()):
            try:
                bound = float(sample.labels.get("le", ""))
            except ValueError:
                continue
            others = frozenset(sample.labels.items() - {("le", sample.labels["le"])})
            sets.setdefault(others, {})[bound] = sample.value
        if len({frozenset(buckets) for buckets in sets.values()}) != 1:
            return None
        bounds = next(iter(sets.values()))
        added = {bound: sum(buckets[bound] for buckets in sets.values()) for bound in bounds}
        return Distribution.from_cumulative(added, self.total(f"{name}_sum") or 0.0)

    def _values(self, name: str, labels: Mapping[str, str]) -> list[float]:
        wanted = labels.items()
        return [sample.value for sample in self._samples.get(name, ()) if wanted <= dict(sample.labels).items()]


def _unescape(text: str) -> str:
    return re.sub(r'\\[\\"n]', lambda match: _ESCAPES[match[0]], text)
