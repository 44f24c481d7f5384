"""Greedy answers of a running engine as token ids, and how many verification steps brought them.

vLLM and SGLang send one chunk of a stream a step; SGLang also says how many steps there were, so that chunks which it
joined would be noticed. llama.cpp sends one token a chunk, and those of one step carry the same time of decoding.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import httpx

from outrider.app.server import Launch

TIMEOUT = 600.0
"""Seconds that an answer may take, on a busy machine."""
Body = Callable[[str, Sequence[int], int, bool], tuple[str, dict[str, Any]]]
"""Served name, prompt, most tokens, whether to stream → path and request body."""
Events = Iterable[tuple[float, Mapping[str, Any]]]
"""Of a stream, each with its time in seconds."""
Piece = tuple[float, Sequence[int], int]
"""When it came, the tokens it brought, and the verification steps it tells of."""


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

        These are the very blocks that :func:`outrider.drafting.evaluation.measure` walks. To leave out only the last
        step would keep the short ones before it, which have stayed inside *because* they were short.
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


def _llamacpp_body(name: str, prompt: Sequence[int], limit: int, stream: bool) -> tuple[str, dict[str, Any]]:
    own = {"prompt": list(prompt), "n_predict": limit, "return_tokens": True, "timings_per_token": stream}
    return "/completion", {**own, "temperature": 0, "stream": stream}


BODIES: Mapping[str, Body] = {"vllm": _vllm_body, "sglang": _sglang_body, "llamacpp": _llamacpp_body}
"""By engine. SGLang and llama.cpp give token ids only at endpoints of their own."""


def _vllm_pieces(events: Events) -> Iterator[Piece]:
    for moment, event in events:
        for choice in event.get("choices") or ():
            if choice.get("token_ids"):
                yield moment, choice["token_ids"], 1


def _sglang_pieces(events: Events) -> Iterator[Piece]:
    told = counted = 0
    for moment, event in events:
        ids = event.get("output_ids", ())[told:]  # it repeats the whole answer in each chunk
        steps = int(event["meta_info"].get("spec_verify_ct") or counted)
        yield moment, ids, steps - counted
        told, counted = told + len(ids), steps


def _llamacpp_pieces(events: Events) -> Iterator[Piece]:
    said = [
        (moment, event["timings"]["predicted_ms"], event["tokens"]) for moment, event in events if event.get("tokens")
    ]
    for _, step in groupby(said, key=lambda one: one[1]):
        parts = list(step)
        yield parts[-1][0], [token for _, _, ids in parts for token in ids], 1


_PIECES: Mapping[str, Callable[[Events], Iterator[Piece]]] = {
    "vllm": _vllm_pieces,
    "sglang": _sglang_pieces,
    "llamacpp": _llamacpp_pieces,
}


def read(engine: str, events: Events) -> Answer:
    """An answer out of the events of its stream."""
    tokens: list[int] = []
    chunks: list[tuple[int, int]] = []
    moments: list[float] = []
    for moment, ids, steps in _PIECES[engine](events):
        brought = len(ids) - 1 if ids and not tokens else len(ids)
        if brought:
            chunks.append((brought, steps))
        elif chunks:  # counted later than its tokens were shown
            chunks[-1] = (chunks[-1][0], chunks[-1][1] + steps)
        if ids:
            moments.append(moment)
        tokens.extend(ids)
    seconds = moments[-1] - moments[0] if moments else math.nan
    return Answer(tuple(tokens), one_each(chunks), seconds)


def one_each(chunks: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Chunks with one step each, where only their sum was told, with the last one, and it is their number.

    SGLang 0.5.15.post1 does so.
    """
    if chunks and not any(steps for _, steps in chunks[:-1]) and chunks[-1][1] == len(chunks):
        return tuple((brought, 1) for brought, _ in chunks)
    return tuple(chunks)


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

    def ask(self, prompt: Sequence[int]) -> Answer:
        """One answer, streamed. Raises httpx.HTTPError."""
        return self.one_by_one([prompt], lambda: None)[0]

    def one_by_one(self, prompts: Sequence[Sequence[int]], done: Callable[[], None]) -> list[Answer]:
        """Answers with one request in flight, streamed. Raises httpx.HTTPError."""
        found = []
        # No connection is kept: llama.cpp closes one now and then just as the next request is sent on it.
        limits = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(base_url=self._url, headers=self._headers, timeout=TIMEOUT, limits=limits) as client:
            for prompt in prompts:
                found.append(self._streamed(client, prompt))
                done()
        return found

    def _streamed(self, client: httpx.Client, prompt: Sequence[int]) -> Answer:
        path, body = self._body(prompt, stream=True)
        with client.stream("POST", path, json=body) as response:
            response.raise_for_status()
            events = list(_events(response))
        found = read(self._engine, events)
        if self._engine != "llamacpp" or _whole(found, events[-1][1]):
            return found
        path, body = self._body(prompt, stream=False)
        answer = client.post(path, json=body).raise_for_status().json()
        return Answer(tuple(answer["tokens"]), (), found.seconds)

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


def _whole(found: Answer, end: Mapping[str, Any]) -> bool:
    """Whether llama.cpp showed every token: it holds back those whose text ends inside a character, with their ids.

    Such an answer is asked for again as a whole, and has no steps.
    """
    return len(found.tokens) + int(end["stop_type"] == "eos") >= int(end["tokens_predicted"])


def _events(response: httpx.Response) -> Iterator[tuple[float, Mapping[str, Any]]]:
    for line in response.iter_lines():
        if line.startswith("data: {"):
            yield time.perf_counter(), json.loads(line.removeprefix("data: "))
