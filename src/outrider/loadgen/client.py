"""Sends one request over HTTP and measures its answer."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from outrider.errors import Unavailable
from outrider.loadgen.answers import Answer
from outrider.loadgen.measurement import Measurement, measured
from outrider.loadgen.profiles import Shape
from outrider.loadgen.prompts import Calibration, PromptWriter, calibrated
from outrider.loadgen.target import Target

_CALIBRATION_WORDS = (8, 200)
_CONNECT = 10.0
_UNANSWERED = "without sending a response"
"""How httpcore says that a kept connection was closed just as it was used: any client takes a new one then."""


class LoadClient:
    """One target's client; :meth:`close` it.

    Args:
        target: where requests go; ``index`` is its place among the targets of the run.
        timeout: seconds that one request may take.
        salt: makes the prompts of this run unlike those of others, and of the other targets.
        body: further fields of every request's body, such as ``temperature``.
        ignore_eos: ask for answers of exactly the wanted length. vLLM, SGLang and llama.cpp know the field; without it
            answers end when the model likes, and two targets no longer do the same work.
    """

    def __init__(
        self,
        target: Target,
        *,
        index: int = 0,
        timeout: float = 600.0,
        salt: str,
        body: Mapping[str, Any] | None = None,
        ignore_eos: bool = True,
    ) -> None:
        self.target = target
        self.index = index
        self._salt = f"{salt}/{index}"
        self._writer = PromptWriter(Calibration(), self._salt)
        self._fields = {"temperature": 0, **({"ignore_eos": True} if ignore_eos else {}), **(body or {})}
        self._http = httpx.AsyncClient(
            base_url=target.url,
            headers=target.headers,
            timeout=httpx.Timeout(timeout, connect=_CONNECT),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=2.0),
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    async def calibrate(self) -> Calibration | None:
        """Learn how many tokens a word makes here, by two short requests. None where the server counts no tokens.

        Raises:
            Unavailable: the target refuses them.
        """
        seen = []
        for words in _CALIBRATION_WORDS:
            shape = Shape(input_tokens=words, output_tokens=1)
            done = await self.send(shape, -words)
            if done.error is not None and done.status != 200:
                why = done.error
                raise Unavailable(f"{self.target.label or self.target.url} refuses requests", why=why,
                                  remedy="Try one with curl; see the server's log.")  # fmt: skip
            if done.prompt_tokens is None:
                return None
            seen.append((words, done.prompt_tokens))
        found = calibrated(seen[0], seen[1])
        self._writer = PromptWriter(found, self._salt)
        return found

    async def send(
        self,
        shape: Shape,
        number: int,
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        scheduled: float | None = None,
        origin: float = 0.0,
    ) -> Measurement:
        """Send a request and read its answer to the end; never raises for what the server does.

        Args:
            shape: its lengths.
            number: which request of the run; its prompt is that number's alone.
            messages: what to send instead of a prompt of that shape.
            scheduled: when it was due on the run's clock; None: now.
            origin: ``time.perf_counter()`` at the run's start.
        """
        content = self._body(shape, messages or self._writer.messages(shape, number))
        headers = {b"Content-Type": b"application/json"}
        if shape.affinity_key is not None:
            headers[b"Outrider-Affinity-Key"] = shape.affinity_key.encode()
        answer = Answer()
        sent = time.perf_counter() - origin
        try:
            status, error = await self._exchange(content, headers, answer, origin)
        except httpx.RemoteProtocolError as failure:
            if _UNANSWERED in str(failure):
                status, error = await self._again(content, headers, answer, origin)
            else:
                status, error = 0, _broken(failure)
        except httpx.TransportError as failure:
            status, error = 0, _broken(failure)
        ended = time.perf_counter() - origin
        due = sent if scheduled is None else scheduled
        return measured(target=self.index, number=number, shape=shape, scheduled=due, sent=sent, ended=ended,
                        status=status, answer=answer, error=error)  # fmt: skip

    async def _exchange(
        self, content: bytes, headers: Mapping[bytes, bytes], answer: Answer, origin: float
    ) -> tuple[int, str | None]:
        """Status, and what the server refused with."""
        async with self._http.stream("POST", "/chat/completions", content=content, headers=headers) as response:
            if not response.is_success:
                return response.status_code, _refusal(response.status_code, await response.aread())
            async for data in response.aiter_raw():
                answer.feed(data, time.perf_counter() - origin)
            return response.status_code, None

    async def _again(
        self, content: bytes, headers: Mapping[bytes, bytes], answer: Answer, origin: float
    ) -> tuple[int, str | None]:
        try:
            return await self._exchange(content, {**headers, b"Connection": b"close"}, answer, origin)
        except httpx.TransportError as failure:
            return 0, _broken(failure)

    def _body(self, shape: Shape, messages: Sequence[Mapping[str, Any]]) -> bytes:
        body = {
            "model": self.target.model,
            "messages": messages,
            "max_tokens": shape.output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._fields,
        }
        return json.dumps(body).encode()


def _broken(failure: httpx.TransportError) -> str:
    kind = "timeout" if isinstance(failure, httpx.TimeoutException) else "connection"
    return f"{kind}: {str(failure) or type(failure).__name__}"


def _refusal(status: int, content: bytes) -> str:
    """``503: no replica is ready``: status and the server's own words, on one line."""
    try:
        error = json.loads(content)["error"]
        text = error["message"] if isinstance(error, dict) else str(error)
    except (ValueError, KeyError, TypeError):
        text = content[:200].decode("utf-8", "replace")
    return f"{status}: {' '.join(str(text).split())}".rstrip(": ")
