"""Engines' pages, served by a real server and read with a key."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from outrider.engines.normalise import NORMALISERS, EngineMetrics
from outrider.telemetry.scrape import PERIOD, Scraper, Target, scrape
from tests import engines
from tests.client.standin import Answer, Asked, Standin, serving

RECORDED = Path(engines.__file__).with_name("recorded")
FILES = {"vllm": "vllm-0.32.0-metrics.txt", "sglang": "sglang-0.5.15.post1-metrics.txt"}


def answer(asked: Asked) -> Answer:
    """``/ENGINE``: the page recorded of it, for who has the key."""
    if asked.headers.get("authorization") != "Bearer secret":
        return Answer(401)
    return Answer(body=(RECORDED / FILES[asked.path[1:]]).read_bytes(), kind="text/plain")


@pytest.fixture
def server() -> Iterator[Standin]:
    with serving(answer) as running:
        yield running


def target(server: Standin, engine: str, key: str = "secret") -> Target:
    return Target(f"r-{engine}", engine, f"{server.url}/{engine}", key)


@pytest.mark.parametrize("engine", FILES)
async def test_a_recorded_page_is_read(server: Standin, engine: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        page = await scrape(client, target(server, engine))
    assert page == NORMALISERS[engine]((RECORDED / FILES[engine]).read_text())
    assert page is not None and page.generated_tokens


async def test_what_does_not_answer_is_none(server: Standin) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        assert await scrape(client, target(server, "vllm", key="wrong")) is None
        assert await scrape(client, Target("r", "vllm", "http://127.0.0.1:1/metrics", "")) is None
        assert await scrape(client, Target("r", "vllm", "no address", "")) is None
        calls = len(server.asked)
        assert await scrape(client, Target("r", "of my own", server.url, "")) is None
        assert len(server.asked) == calls, "a page that cannot be read is not asked for"


async def test_rounds_go_on_and_one_engine_does_not_hide_another(server: Standin) -> None:
    taken: list[tuple[str, EngineMetrics]] = []
    slept: list[float] = []
    ended = asyncio.Event()

    async def targets() -> list[Target]:
        if len(slept) == 1:
            raise RuntimeError("the store is busy")
        return [target(server, "vllm"), Target("dead", "vllm", "http://127.0.0.1:1/metrics", "")]

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            ended.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(Scraper(targets, lambda *page: taken.append(page), sleep=sleep).run())
    await asyncio.wait_for(ended.wait(), 20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [replica for replica, _ in taken] == ["r-vllm", "r-vllm"]
    assert slept == [PERIOD] * 3
