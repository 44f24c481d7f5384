"""One streamed answer: when its content came, what it cost in tokens, and whether it ended well."""

from __future__ import annotations

import json
import re
from typing import Any

_BOUNDARY = re.compile(rb"\r?\n\r?\n")
_TEXTS = ("content", "reasoning_content", "reasoning", "refusal")


class Answer:
    """Reads an OpenAI event stream (chat or completions) as it arrives.

    Attributes:
        first, last: when the first and the last content event came, in the caller's seconds; None before.
        gaps: seconds between content events. Not ITL: with speculation one event is a whole verification step.
        events: content events so far.
        prompt_tokens, completion_tokens, cached_tokens: as the server counted; None where it did not say.
        error: what an error event of the stream said; None without one.
        done: ``data: [DONE]`` came.
    """

    __slots__ = (
        "_held", "cached_tokens", "completion_tokens", "done", "error", "events", "first", "gaps", "last",
        "prompt_tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        self.first: float | None = None
        self.last: float | None = None
        self.gaps: list[float] = []
        self.events = 0
        self.prompt_tokens: int | None = None
        self.completion_tokens: int | None = None
        self.cached_tokens: int | None = None
        self.error: str | None = None
        self.done = False
        self._held = b""

    def feed(self, data: bytes, now: float) -> None:
        """Take the bytes that came at ``now``."""
        *whole, self._held = _BOUNDARY.split(self._held + data)
        for event in whole:
            for line in event.splitlines():
                if line.startswith(b"data:"):
                    self._data(line[5:].strip(), now)

    def _data(self, data: bytes, now: float) -> None:
        if data == b"[DONE]":
            self.done = True
            return
        try:
            event = json.loads(data)
        except ValueError:
            self.error = self.error or "an event is no JSON"
            return
        if not isinstance(event, dict):
            return
        if event.get("error"):
            self.error = _message(event["error"])
        self._usage(event.get("usage"))
        if any(_has_content(choice) for choice in event.get("choices") or ()):
            self._content(now)

    def _content(self, now: float) -> None:
        if self.last is None:
            self.first = now
        else:
            self.gaps.append(now - self.last)
        self.last = now
        self.events += 1

    def _usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        self.prompt_tokens = usage.get("prompt_tokens", self.prompt_tokens)
        self.completion_tokens = usage.get("completion_tokens", self.completion_tokens)
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            self.cached_tokens = details.get("cached_tokens", self.cached_tokens)


def _has_content(choice: Any) -> bool:
    if not isinstance(choice, dict):
        return False
    delta = choice.get("delta") or {}
    return bool(choice.get("text") or delta.get("tool_calls") or any(delta.get(name) for name in _TEXTS))


def _message(error: Any) -> str:
    text = error.get("message") if isinstance(error, dict) else None
    return str(text or error)
