"""What is learnt from an answer on its way through: when content came, and what it cost in tokens.

An event stream is cut at its blank lines and searched with one regular expression per read; JSON is parsed once, for
the event that carries usage. Bytes go on unchanged, save that the usage event the gateway asked for is dropped.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Any, NamedTuple

_BOUNDARY = re.compile(rb"\r?\n\r?\n|\r\r")
_CONTENT = re.compile(
    rb'"(?:content|reasoning_content|reasoning|text|arguments|delta|thinking|partial_json|refusal)"\s*:\s*"(?!")'
    rb'|"tool_calls"\s*:\s*\[\s*\{'
)
_USAGE = re.compile(rb'"usage"\s*:\s*(?=\{)')
_NO_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*\]')

_LINE_ENDS = (
    b"\n",
    b"\r",
)  # before a blank line they make it unclear which of them end it: then every one is looked at

_HELD = 64 * 1024
"""Bytes of one unfinished event that are held back: far above any usage event, so what is longer may go on at once."""

_EDGE = 4096
"""Bytes kept from each end of a JSON answer: usage stands behind the choices, or before the embeddings."""


class Usage(NamedTuple):
    """Tokens as the engine counted them; None where it did not say."""

    prompt: int | None = None
    completion: int | None = None


class EventObserver:
    """Watches an event stream.

    Attributes:
        first: when the first content event came, in the caller's seconds; None before.
        last: when the last one did.

    Args:
        drop_usage: take out the event with empty ``choices`` and ``usage``, which the client did not ask for.
    """

    __slots__ = ("_drop", "_held", "_passing", "_usages", "first", "last")

    def __init__(self, *, drop_usage: bool) -> None:
        self.first: float | None = None
        self.last: float | None = None
        self._drop = drop_usage
        self._held = b""
        self._passing = False
        self._usages: list[bytes] = []

    def feed(self, data: bytes, now: float) -> bytes:
        """Take what came, give what may go on: whole events. An unfinished event is held until its blank line."""
        if self._held:
            data = self._held + data
            self._held = b""
        if self._passing:
            return self._pass(data, now)
        if not data.endswith(b"\n\n") or data[-3:-2] in _LINE_ENDS:
            end = _last_end(data)
            if len(data) - end > _HELD:
                whole, self._held = data[:-3], data[-3:]  # a blank line may be cut in up to three of its four bytes
                self._passing = True
                return self._events(whole, now)
            data, self._held = data[:end], data[end:]
            if not data:
                return b""
        return self._events(data, now)

    @property
    def held(self) -> bytes:
        """The unfinished event at the end of a stream: it is sent as it is when the stream ends well."""
        return self._held

    def usage(self) -> Usage:
        """Tokens of the whole answer. The Messages API splits them over two events; a later one wins."""
        total = Usage()
        for event in self._usages:
            for found in _usages(event):
                total = _merge(total, found)
        return total

    def _pass(self, data: bytes, now: float) -> bytes:
        """The rest of an event too long to hold."""
        match = _BOUNDARY.search(data)
        if match is None:
            data, self._held = data[:-3], data[-3:]
            return data
        self._passing = False
        end = match.end()
        return data[:end] + self.feed(data[end:], now)

    def _events(self, data: bytes, now: float) -> bytes:
        if _CONTENT.search(data) is not None:
            if self.first is None:
                self.first = now
            self.last = now
        if b'"usage"' not in data or _USAGE.search(data) is None:
            return data
        return self._with_usage(data)

    def _with_usage(self, data: bytes) -> bytes:
        kept: list[bytes] = []
        done = 0
        for start, end in _events_with_usage(data):
            event = data[start:end]
            self._usages = [*self._usages[:1], event]  # the first and the latest: bounded for any stream
            if self._drop and _NO_CHOICES.search(event) is not None:
                kept.append(data[done:start])
                done = end
        kept.append(data[done:])
        return b"".join(kept)


class BodyObserver:
    """Watches a JSON answer: keeps both ends of it, whatever its length."""

    __slots__ = ("_head", "_tail")

    def __init__(self) -> None:
        self._head = b""
        self._tail = b""

    def feed(self, data: bytes) -> None:
        """Take what came."""
        room = _EDGE - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail = (self._tail + data[-_EDGE:])[-_EDGE:]

    def usage(self) -> Usage:
        """Tokens of the answer, where its usage lies within 4 KiB of either end."""
        for found in reversed(_usages(self._head + self._tail)):
            if found.prompt is not None or found.completion is not None:
                return found
        return Usage()


def _plain(data: bytes) -> bool:
    """Whether every event ends in exactly two line feeds, as engines write them: then a byte search finds the ends."""
    return b"\r" not in data and b"\n\n\n" not in data


def _last_end(data: bytes) -> int:
    """Where the last whole event ends; 0 where none does."""
    if _plain(data):
        return data.rfind(b"\n\n") + 2 if b"\n\n" in data else 0
    end = 0
    for match in _BOUNDARY.finditer(data):
        end = match.end()
    return end


def _events_with_usage(data: bytes) -> list[tuple[int, int]]:
    """Start and end of each event that carries usage."""
    found: list[tuple[int, int]] = []
    ends = None if _plain(data) else [match.end() for match in _BOUNDARY.finditer(data)]
    for match in _USAGE.finditer(data):
        at = match.start()
        if ends is None:
            before, after = data.rfind(b"\n\n", 0, at), data.find(b"\n\n", at)
            span = (before + 2 if before >= 0 else 0, after + 2 if after >= 0 else len(data))
        else:
            index = bisect_right(ends, at)
            span = (ends[index - 1] if index else 0, ends[index] if index < len(ends) else len(data))
        if not found or found[-1] != span:
            found.append(span)
    return found


_DECODER = json.JSONDecoder()


def _usages(text: bytes) -> list[Usage]:
    found = []
    for match in _USAGE.finditer(text):
        try:
            data, _ = _DECODER.raw_decode(text[match.end() :].decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue  # cut off where the kept ends meet
        found.append(_read(data))
    return found


def _read(data: dict[str, Any]) -> Usage:
    return Usage(_count(data, "prompt_tokens", "input_tokens"), _count(data, "completion_tokens", "output_tokens"))


def _count(data: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = data.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _merge(earlier: Usage, later: Usage) -> Usage:
    return Usage(
        earlier.prompt if later.prompt is None else later.prompt,
        earlier.completion if later.completion is None else later.completion,
    )
