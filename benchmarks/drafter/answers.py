"""Greedy answers of a running engine as token ids, and how many verification steps brought them.

vLLM sends one chunk of a stream a step. SGLang says in each chunk how many steps the request has taken so far, so that
chunks which it joins are counted right, too.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from outrider.app.server import Launch

TIMEOUT = 120.0
"""Seconds that an answer may take."""
Body = Callable[[str, Sequence[int], int, bool], tuple[str, dict[str, Any]]]
"""Served name, prompt, most tokens, whether to stream → path and request body."""


@dataclass(frozen=True)
class Answer:
    """What an engine said to one prompt.

    Attributes:
        tokens: of the answer.
        chunks: tokens and verification steps of each chunk, without the first token, which the prompt's own pass gives.
        seconds: from the first chunk to the last.
    """

    tokens: tuple[int, ...]
    chunks: tuple[tuple[int, int], ...]
    seconds: float

    @property
    def ms(self) -> float:
        """Time a token after the first, milliseconds; NaN where there is none."""
        return 1000 * self.seconds / (len(self.tokens) - 1) if len(self.tokens) > 1 else math.nan

    @property
    def steps(self) -> int:
        """Verification steps, the one that the answer's end cut short included."""
        return sum(steps for _, steps in self.chunks)

    def tau(self, block: int) -> float:
        """Tokens a step, over the steps that the end could not have cut short; NaN where there is none.

        These are the very blocks that :func:`outrider.drafting.evaluation.measure` walks.
        """
        anchor, tokens, steps = 0, 0, 0
        for brought, taken in self.chunks:
            if anchor + block < len(self.tokens):
                tokens, steps = tokens + brought, steps + taken
            anchor += brought
        return tokens / steps if steps else math.nan


def _vllm_body(name: str, prompt: Sequence[int], limit: int, stream: bool) -> tuple[str, dict[str, Any]]:
    own = {"model": name, "prompt": list(prompt), "max_tokens": limit, "return_token_ids": True}
    return "/v1/completions", {**own, "temperature": 0, "stream": stream}


def _sglang_body(name: str, prompt: Sequence[int], limit: int, stream: bool) -> tuple[str, dict[str, Any]]:
    sampling = {"temperature": 0, "max_new_tokens": limit}
    return "/generate", {"input_ids": list(prompt), "sampling_params": sampling, "stream": stream}


BODIES: Mapping[str, Body] = {"vllm": _vllm_body, "sglang": _sglang_body}
"""By engine. SGLang gives token ids only at an endpoint of its own."""


def grown(engine: str, event: Mapping[str, Any], tokens: list[int], steps: int) -> int:
    """Add what one chunk brought to ``tokens``; the steps taken so far."""
    if engine == "sglang":
        # It repeats the whole answer in each chunk.
        tokens.extend(event.get("output_ids", ())[len(tokens) :])
        return int(event["meta_info"].get("spec_verify_ct") or steps)
    choices = event.get("choices") or [{}]
    found = choices[0].get("token_ids") or ()
    first = not tokens
    tokens.extend(found)
    return steps + (1 if len(found) > first else 0)


def read(engine: str, events: Iterator[tuple[float, Mapping[str, Any]]]) -> Answer:
    """An answer out of the chunks of its stream, each with its time in seconds."""
    tokens: list[int] = []
    chunks: list[tuple[int, int]] = []
    steps, first, last = 0, math.nan, math.nan
    for moment, event in events:
        before, taken = len(tokens), steps
        steps = grown(engine, event, tokens, steps)
        if len(tokens) == before:
            if chunks and steps > taken:  # SGLang counts a step later than it shows its tokens
                chunks[-1] = (chunks[-1][0], chunks[-1][1] + steps - taken)
            continue
        first, last = (moment if before == 0 else first), moment
        brought = len(tokens) - max(before, 1)
        if brought:
            chunks.append((brought, steps - taken))
    return Answer(tuple(tokens), tuple(chunks), last - first)


class Client:
    """Asks one engine.

    Args:
        engine: Outrider's name for it.
        launch: how it was started.
        limit: most tokens of an answer.
    """

    def __init__(self, engine: str, launch: Launch, limit: int) -> None:
        self._engine, self._launch, self._limit = engine, launch, limit
        self._url = f"http://{launch.host}:{launch.port}"
        self._headers = {"Authorization": f"Bearer {launch.key}"}

    def one_by_one(self, prompts: Sequence[Sequence[int]], done: Callable[[], None]) -> list[Answer]:
        """Answers with one request in flight, streamed. Raises httpx.HTTPError."""
        found = []
        with httpx.Client(base_url=self._url, headers=self._headers, timeout=TIMEOUT) as client:
            for prompt in prompts:
                path, body = self._body(prompt, stream=True)
                with client.stream("POST", path, json=body) as response:
                    response.raise_for_status()
                    found.append(read(self._engine, _events(response)))
                done()
        return found

    def together(self, prompts: Sequence[Sequence[int]], width: int) -> tuple[int, float]:
        """Tokens of all answers, and seconds from the first request to the last answer, ``width`` at a time.

        Raises:
            httpx.HTTPError: a request failed.
        """
        return asyncio.run(self._together(list(prompts), width))

    def page(self) -> str:
        """The engine's metrics page. Raises httpx.HTTPError."""
        answer = httpx.get(f"{self._url}/metrics", headers=self._headers, timeout=TIMEOUT, follow_redirects=True)
        return answer.raise_for_status().text

    def _body(self, prompt: Sequence[int], *, stream: bool) -> tuple[str, dict[str, Any]]:
        return BODIES[self._engine](self._launch.name, prompt, self._limit, stream)

    async def _together(self, prompts: list[Sequence[int]], width: int) -> tuple[int, float]:
        waiting, tokens = prompts[::-1], 0
        limits = httpx.Limits(max_connections=width, max_keepalive_connections=width)

        async def worker(client: httpx.AsyncClient) -> None:
            nonlocal tokens
            while waiting:
                path, body = self._body(waiting.pop(), stream=False)
                answer = (await client.post(path, json=body)).raise_for_status().json()
                counts = answer["meta_info"] if self._engine == "sglang" else answer["usage"]
                tokens += counts["completion_tokens"]

        async with httpx.AsyncClient(
            base_url=self._url, headers=self._headers, timeout=TIMEOUT, limits=limits
        ) as client:
            start = time.perf_counter()
            await asyncio.gather(*(worker(client) for _ in range(width)))
            return tokens, time.perf_counter() - start


def _events(response: httpx.Response) -> Iterator[tuple[float, Mapping[str, Any]]]:
    for line in response.iter_lines():
        if line.startswith("data: {"):
            yield time.perf_counter(), json.loads(line.removeprefix("data: "))
