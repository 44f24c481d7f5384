"""The official client library against the gateway: what it sends is understood, what it gets it understands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai
import pytest

from tests.gateway.client import Served, key, serving, table
from tests.gateway.standin import STREAM_HEAD, Asked, Standin, chunk, content


@asynccontextmanager
async def client(served: Served, secret: str = "good") -> AsyncIterator[openai.AsyncOpenAI]:
    base = f"http://127.0.0.1:{served.port}/v1"
    async with openai.AsyncOpenAI(base_url=base, api_key=secret, max_retries=0) as made:
        yield made


async def test_chat_and_models() -> None:
    async with Standin() as engine, serving(table([engine], keys=[key("good")])) as served, client(served) as api:
        answer = await api.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "hi"}])
        assert answer.choices[0].message.content == "standin"
        assert answer.usage is not None and answer.usage.completion_tokens == 3
        assert [model.id async for model in api.models.list()] == ["tiny"]
        stream = await api.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        assert [part.choices[0].delta.content async for part in stream] == ["", "one", "two", "three"]


async def test_errors_are_the_librarys_own() -> None:
    async with Standin() as engine, serving(table([engine], keys=[key("good")])) as served:
        async with client(served, "wrong") as api:
            with pytest.raises(openai.AuthenticationError):
                await api.models.list()
        async with client(served) as api:
            with pytest.raises(openai.NotFoundError, match="Did you mean 'tiny'"):
                await api.completions.create(model="tinny", prompt="hi")
            with pytest.raises(openai.BadRequestError):
                await api.completions.create(model="", prompt="hi")


async def test_over_the_limit_is_the_librarys_own_too() -> None:
    limits = {"requests_per_minute": 1}
    async with Standin() as engine, serving(table([engine], keys=[key("good", limits=limits)])) as served:
        async with client(served) as api:
            raw = await api.chat.completions.with_raw_response.create(
                model="tiny", messages=[{"role": "user", "content": "hi"}], prompt_cache_key="session", user="me"
            )
            assert raw.headers["x-ratelimit-remaining-requests"] == "0"
            with pytest.raises(openai.RateLimitError) as caught:
                await api.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "hi"}])
        assert caught.value.code == "rate_limit_exceeded"
        assert int(caught.value.response.headers["retry-after"]) == 60
        assert len(engine.asked) == 1


async def test_replica_that_dies_in_a_stream_raises() -> None:
    async def play(standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(content("a")))
        await writer.drain()
        await standin.release.wait()
        writer.transport.abort()

    async with Standin(play=play) as engine, serving(table([engine])) as served, client(served) as api:
        stream = await api.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "hi"}], stream=True
        )
        parts = aiter(stream)
        assert (await anext(parts)).choices[0].delta.content == "a"
        engine.release.set()
        with pytest.raises(openai.APIError, match="before the end"):
            await anext(parts)
        await stream.close()
