"""Names follow Prometheus' rules."""

from __future__ import annotations

import re

from outrider.metrics.schema import METRICS, Kind, Unit


def test_names() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert re.fullmatch(r"outrider_[a-z0-9_]+", metric.name)
        assert (metric.kind is Kind.COUNTER) == metric.name.endswith("_total")
        assert (metric.unit is Unit.SECONDS) == metric.name.endswith("_seconds")
        assert all(re.fullmatch(r"[a-z_]+", label) and label != "le" for label in metric.labels)
        assert metric.help.endswith(".")


def test_gaps_between_events_are_not_called_itl() -> None:
    [itl] = [metric for metric in METRICS if "itl" in metric.name]
    assert "completion tokens - 1" in itl.help
