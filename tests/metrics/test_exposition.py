"""Prometheus text, read back by a small parser of the format."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.metrics import schema
from outrider.metrics.exposition import render
from outrider.metrics.histograms import BOUNDS, Histogram

_SAMPLE = re.compile(r"^([a-z0-9_]+)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'([a-z_]+)="((?:\\.|[^"\\])*)",?')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def read(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = {}
    for line in text.split("\n"):
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        assert match, line
        labels = tuple(
            (name, re.sub(r"\\.", lambda one: _ESCAPES[one[0]], value))
            for name, value in _LABEL.findall(match[2] or "")
        )
        found[match[1], labels] = float(match[3])
    return found


@given(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 10**12))
def test_any_label_comes_back(name: str, value: int) -> None:
    text = render([(schema.RETRIES, [((name,), value)])])
    assert read(text) == {("outrider_gateway_retries_total", (("endpoint", name),)): value}


def test_histogram_buckets_accumulate() -> None:
    histogram = Histogram()
    for value in (0.00001, 0.5, 0.5, 5000.0):
        histogram.observe(value)
    found = read(render([(schema.TTFT, [(("tiny", "1", "r0"), histogram)])]))
    where = (("endpoint", "tiny"), ("revision", "1"), ("replica", "r0"))
    buckets = [found["outrider_request_ttft_seconds_bucket", (*where, ("le", repr(bound)))] for bound in BOUNDS]
    assert buckets == sorted(buckets)
    assert (buckets[0], buckets[-1]) == (1, 3)
    assert found["outrider_request_ttft_seconds_bucket", (*where, ("le", "+Inf"))] == 4
    assert found["outrider_request_ttft_seconds_count", where] == 4
    assert found["outrider_request_ttft_seconds_sum", where] == pytest.approx(5001.00001)


def test_metric_without_labels_or_samples() -> None:
    text = render([(schema.CONNECTIONS, [((), 3)]), (schema.WAITING, [])])
    assert text.splitlines()[-2:] == [
        f"# HELP outrider_gateway_waiting {schema.WAITING.help}",
        "# TYPE outrider_gateway_waiting gauge",
    ]
    assert read(text) == {("outrider_gateway_connections", ()): 3.0}


def test_labels_must_fit() -> None:
    with pytest.raises(ValueError):
        render([(schema.RETRIES, [(("a", "b"), 1)])])
