"""The benchmark against the real engine, through the gateway and past it."""

from __future__ import annotations

import pytest

from tests.e2e.outrider_process import MODEL, NAME, Outrider


@pytest.mark.e2e
def test_an_endpoint_against_its_own_engine(outrider: Outrider) -> None:
    outrider.run("endpoint", "create", "--model", MODEL)
    lengths = ("--input-tokens", "64", "--output-tokens", "16", "--shared-tokens", "0")
    found = outrider.json("bench", NAME, "--compare", "engine", "-n", "4", "--rounds", "2", "--warm-up", "1", *lengths)
    assert [target["label"] for target in found["targets"]] == [NAME, "engine"]
    for row in found["rows"]:
        assert row["errors"] == 0
        assert row["tokens_counted_by"] == "server"
        assert row["output_tokens_mean"] == 16
        assert row["input_tokens_mean"] == pytest.approx(64, rel=0.1)
        assert 0 < row["itl"]["p50"]["value"] < row["ttft"]["p50"]["value"] < row["e2e"]["p50"]["value"]
    assert f"itl_p50_{NAME}_over_engine" in found["ratios"]["concurrency 1"]
    assert found["workload"]["context"] == 8192
