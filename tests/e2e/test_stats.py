"""The last minute of a real engine that drafts with n-grams: the gateway's counts, the engine's own, and both exact."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.e2e.outrider_process import MODEL, NAME, Outrider, until

_REPETITIVE = "Repeat: " + "one two three four five six seven. " * 12


@pytest.mark.e2e
def test_the_last_minute_of_an_endpoint(outrider: Outrider) -> None:
    drafting = ("--set", "speculative.types=ngram-simple")
    outrider.run("endpoint", "create", "--model", MODEL, *drafting)

    def stats() -> Any:
        return outrider.json("endpoint", "stats", NAME)

    idle = until(lambda: (found := stats())["engine"] and found["gateway"] and found)
    assert idle["gateway"]["requests"] == idle["gateway"]["output_tokens"] == idle["engine"]["running"] == 0
    assert idle["gateway"]["ttft"]["p50"] is idle["engine"]["kv_usage"] is idle["engine"]["acceptance_length"] is None

    plain = outrider.chat(tokens=16).json()["usage"]
    body: dict[str, Any] = {"model": NAME, "stream": True, "max_tokens": 48, "temperature": 0, "ignore_eos": True}
    body["messages"] = [{"role": "user", "content": _REPETITIVE}]
    first, last = (httpx.post(f"{outrider.url}/v1/chat/completions", json=body, timeout=120) for _ in range(2))
    assert "[DONE]" in first.text and "[DONE]" in last.text
    assert outrider.chat("nobody").status_code == 404

    found = until(lambda: (seen := stats())["gateway"]["requests"] == 3 and _caught_up(seen) and seen)
    assert [replica["gateway"]["requests"] for replica in found["replicas"]] == [3]
    assert found["replicas"][0]["engine"] == found["engine"]
    gateway, engine = found["gateway"], found["engine"]
    assert (gateway["failed"], gateway["in_flight"], found["held"]) == (0, 0, 0)
    assert gateway["output_tokens"] == plain["completion_tokens"] + 2 * 48
    assert (gateway["ttft"]["count"], gateway["itl"]["count"], gateway["e2e"]["count"]) == (2, 2, 3)
    assert 0 < gateway["itl"]["p50"] < gateway["ttft"]["p99"] < gateway["e2e"]["p99"] < 120
    assert gateway["output_tokens_per_second"] == pytest.approx(gateway["output_tokens"] / found["covered"])
    assert (engine["running"], engine["waiting"]) == (0, 0)
    assert 0 < engine["prefix_hit_rate"] < 1, "the second stream found the first one's prompt in the cache"
    shares = engine["acceptance_by_position"]
    assert engine["acceptance_length"] == pytest.approx(1 + sum(shares))
    assert shares == sorted(shares, reverse=True) and 0 < shares[0] <= 1
    assert "accepted at" in outrider.run("endpoint", "stats", NAME)
    outrider.run("endpoint", "stop", NAME)
    ended = until(lambda: not (seen := stats())["replicas"] and seen)
    assert (ended["gateway"]["requests"], ended["engine"]) == (3, None)


def _caught_up(found: Any) -> bool:
    """Whether the engine's page was read after its last step."""
    return bool(found["engine"]["acceptance_length"] and not found["engine"]["running"])
