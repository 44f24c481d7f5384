"""The last minute of a real engine that drafts with n-grams: the gateway's counts, the engine's own, and both exact."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from outrider.client.auth import Address
from outrider.client.http import Client
from outrider.engines.normalise import EngineMetrics, llamacpp
from outrider.telemetry.pages import Rise
from tests.e2e.outrider_process import MODEL, NAME, Outrider, until

_REPETITIVE = "one two three four five six seven." * 12
_DRAFTING = (
    *("--set", "speculative.types=ngram-simple"),
    *("--set", "speculative.ngram_simple.size_n=3", "--set", "speculative.ngram_simple.size_m=4"),
)
"""From three tokens seen before, the four that followed them."""


@pytest.mark.e2e
def test_the_last_minute_of_an_endpoint(outrider: Outrider) -> None:
    outrider.run("endpoint", "create", "--model", MODEL, *_DRAFTING)

    def stats() -> Any:
        return outrider.json("endpoint", "stats", NAME)

    def once(what: Callable[[Any], object]) -> Any:
        def look() -> Any:
            seen = stats()  # reports come each half second, pages each second
            return seen if what(seen) else None

        return until(look)

    idle = once(lambda seen: seen["engine"] and seen["gateway"])
    assert idle["gateway"]["requests"] == idle["gateway"]["output_tokens"] == idle["engine"]["running"] == 0
    assert idle["gateway"]["ttft"]["p50"] is idle["engine"]["kv_usage"] is idle["engine"]["acceptance_length"] is None

    before = _page(outrider)
    plain = outrider.chat(tokens=16).json()["usage"]
    body: dict[str, Any] = {"model": NAME, "stream": True, "max_tokens": 48, "temperature": 0, "ignore_eos": True}
    body["prompt"] = _REPETITIVE
    first, last = (httpx.post(f"{outrider.url}/v1/completions", json=body, timeout=120) for _ in range(2))
    assert "[DONE]" in first.text and "[DONE]" in last.text
    assert outrider.chat("nobody").status_code == 404

    rise = Rise.between(before, _page(outrider), 1.0)
    shares = rise.acceptance_by_position

    def settled(seen: Any) -> bool:
        engine = seen["engine"]
        told = seen["gateway"]["requests"] == 3 and not engine["running"]
        return bool(told and engine["prefix_hit_rate"] == rise.prefix_hit_rate)

    found = once(settled)
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
    assert engine["acceptance_by_position"] == (shares and list(shares)), "what it drafts depends on what it says"
    assert engine["acceptance_length"] == (shares and pytest.approx(1 + sum(shares)))
    assert f"{NAME}, last " in outrider.run("endpoint", "stats", NAME)
    outrider.run("endpoint", "stop", NAME)
    assert once(lambda seen: not seen["replicas"])["engine"] is None


def _page(outrider: Outrider) -> EngineMetrics:
    """What the engine says, read past everything."""
    with Client(address=Address.at_socket(outrider.home.api_socket)) as client:
        engine = client.engine(NAME)
    return llamacpp(httpx.get(f"{engine['url']}/metrics", headers={"authorization": f"Bearer {engine['key']}"}).text)
