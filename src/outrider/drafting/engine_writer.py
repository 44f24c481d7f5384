"""The target answers through an engine that serves it: any with OpenAI's ``/v1/completions`` that takes token ids.

Prompts go as token ids, so the engine applies no template of its own. Answers come back as ids where the engine gives
them (``return_token_ids`` of vLLM; ``return_tokens`` at llama.cpp's own ``/completion``, since its OpenAI form has
none), else as text that is tokenised again.
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
        self._url, self._headers = url, {"Authorization": f"Bearer {key}"} if key else {}
        self._model, self._form, self._concurrency, self._seed = model, form, concurrency, seed

    def write(self, scripts: Iterator[Script], report: Callable[[int], None] = lambda _: None) -> Iterator[Text]:
        """Texts as they are finished.

        Raises:
            Unavailable: the engine does not answer, or refuses.
        """
        limits, timeout = httpx.Limits(max_connections=self._concurrency), httpx.Timeout(600, connect=10)
        pending: set[Future[Text | None]] = set()
        with (
            httpx.Client(base_url=self._url, headers=self._headers, timeout=timeout, limits=limits) as http,
            ThreadPoolExecutor(self._concurrency) as pool,
        ):
            engine = _Engine(http, self._model, self._seed)
            while True:
                while len(pending) < self._concurrency and (script := next(scripts, None)) is not None:
                    pending.add(pool.submit(self._one, engine, script))
                if not pending:
                    return
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    if (text := future.result()) is not None:
                        report(len(text.tokens))
                        yield text

    def _one(self, engine: _Engine, script: Script) -> Text | None:
        tokens: list[int] = []
        spans: list[tuple[int, int, Written, bool]] = []
        for part in script.parts:
            if isinstance(part, Given):
                tokens.extend(part.tokens)
                continue
            start = len(tokens)
            written, ended = self._turn(engine, tokens, part)
            tokens.extend(written)
            spans.append((start, len(tokens), part, ended))
            if not ended:
                return Text(script, tokens, spans) if part.answer else None
        return Text(script, tokens, spans)

    def _turn(self, engine: _Engine, tokens: list[int], part: Written) -> tuple[list[int], bool]:
        """What the engine writes next, with its end-of-turn token, and whether it came to one."""
        ids, text, ended = engine.complete(tokens, part)
        written = list(self._form.encode(text)) if ids is None else ids
        if ended and (not written or written[-1] not in self._form.stops):
            written.append(self._form.user_stop)
        return written, ended


class _Engine:
    """The engine behind ``http``, in its own dialect."""

    def __init__(self, http: httpx.Client, model: str, seed: int) -> None:
        self._http, self._model, self._seed = http, model, seed
        self._llamacpp = self._owner() == "llamacpp"

    def complete(self, tokens: list[int], part: Written) -> tuple[list[int] | None, str, bool]:
        """The ids of what comes next, if the engine gives them; its text; and whether it came to an end of turn."""
        sampler = part.sampler
        body = {
            "model": self._model,
            "prompt": tokens,
            "temperature": sampler.temperature,
            "top_p": sampler.top_p,
            "min_p": sampler.min_p,
            "seed": self._seed + len(tokens),
        }
        try:
            if self._llamacpp:
                # Its own default draws from the 40 most likely tokens alone.
                own = {"n_predict": part.limit, "return_tokens": True, "top_k": 0}
                said = self._ask("POST", "/completion", body | own)
                return _ids(said.get("tokens")), said["content"], said["stop_type"] == "eos"
            more = {"max_tokens": part.limit, "return_token_ids": True}
            choice = self._ask("POST", "/v1/completions", body | more)["choices"][0]
            return _ids(choice.get("token_ids")), choice["text"], choice.get("finish_reason") == "stop"
        except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
            raise _unavailable(error) from None

    def _owner(self) -> str:
        """Who made the engine, as it says itself; empty where it does not."""
        try:
            found = self._ask("GET", "/v1/models")
            return str(found["data"][0].get("owned_by", ""))
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.NOT_FOUND:
                return ""
            raise _unavailable(error) from None
        except (httpx.HTTPError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise _unavailable(error) from None

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        answer = self._http.request(method, path, json=body)
        answer.raise_for_status()
        return answer.json()


def _ids(found: list[int] | None) -> list[int] | None:
    return [int(token) for token in found] if found else None


def _unavailable(error: Exception) -> Unavailable:
    return Unavailable("The engine gave no completion", why=str(error), remedy="Check its address and its key.")
