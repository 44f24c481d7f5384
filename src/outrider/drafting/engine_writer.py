"""The target answers through an engine that serves it: any with OpenAI's ``/v1/completions`` that takes token ids.

Prompts go as token ids, so the engine applies no template of its own. Answers come back as ids where the engine gives
them (``return_token_ids`` of vLLM, ``return_tokens`` of llama.cpp), else as text that is tokenised again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import httpx

from ..errors import Unavailable
from .chat_format import ChatFormat
from .slots import Given, Script, Text, Written


class EngineWriter:
    """Writes texts through the engine at ``url``, ``concurrency`` at a time."""

    def __init__(
        self, url: str, model: str, form: ChatFormat, *, key: str | None = None, concurrency: int = 16, seed: int = 0
    ) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=httpx.Timeout(600, connect=10))
        self._model, self._form, self._concurrency, self._seed = model, form, concurrency, seed

    def write(self, scripts: Iterator[Script], report: Callable[[int], None] = lambda _: None) -> Iterator[Text]:
        """Texts as they are finished.

        Raises:
            Unavailable: the engine does not answer, or refuses.
        """
        pending: set[Future[Text | None]] = set()
        with ThreadPoolExecutor(self._concurrency) as pool:
            while True:
                while len(pending) < self._concurrency and (script := next(scripts, None)) is not None:
                    pending.add(pool.submit(self._one, script))
                if not pending:
                    return
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    if (text := future.result()) is not None:
                        report(len(text.tokens))
                        yield text

    def _one(self, script: Script) -> Text | None:
        tokens: list[int] = []
        spans: list[tuple[int, int, Written, bool]] = []
        for part in script.parts:
            if isinstance(part, Given):
                tokens.extend(part.tokens)
                continue
            start = len(tokens)
            written, ended = self._complete(tokens, part)
            tokens.extend(written)
            spans.append((start, len(tokens), part, ended))
            if not ended:
                return Text(script, tokens, spans) if part.answer else None
        return Text(script, tokens, spans)

    def _complete(self, tokens: list[int], part: Written) -> tuple[list[int], bool]:
        """What the engine writes next, with its end-of-turn token, and whether it came to one."""
        sampler = part.sampler
        body = {
            "model": self._model,
            "prompt": tokens,
            "max_tokens": part.limit,
            "temperature": sampler.temperature,
            "top_p": sampler.top_p,
            "min_p": sampler.min_p,
            "seed": self._seed + len(tokens),
            "return_token_ids": True,
            "return_tokens": True,
        }
        try:
            answer = self._http.post("/v1/completions", json=body)
            answer.raise_for_status()
            choice = answer.json()["choices"][0]
        except (httpx.HTTPError, ValueError, KeyError, IndexError) as error:
            raise Unavailable("The engine gave no completion", why=str(error), remedy="Check its address.") from None
        ids = _ids(choice)
        written = list(self._form.encode(choice["text"])) if ids is None else ids
        ended = choice.get("finish_reason") == "stop"
        if ended and (not written or written[-1] not in self._form.stops):
            written.append(self._form.user_stop)
        return written, ended


def _ids(choice: dict[str, Any]) -> list[int] | None:
    ids = choice.get("token_ids") or choice.get("tokens")
    return [int(token) for token in ids] if ids else None
