"""Slice facts: what of a request changes the acceptance length, read off its parsed body in a few microseconds.

Thinking mode, language, tools and grammars, and temperature each move τ by more than most tuning does, so every request
is remembered with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

SCRIPT_WINDOW = 256
"""Characters at the end of the prompt that the script is read from: the question, not the system prompt before it."""


class SliceFacts(NamedTuple):
    """What of one request changes τ.

    Attributes:
        tools: whether tools were offered.
        response_format: ``text``, ``json_object``, ``json_schema`` or ``grammar``.
        temperature: as asked for; None where the engine's default holds.
        mode: ``thinking``, ``direct``, or ``default`` where the request does not say.
        script: writing system of the last 256 characters (``latin``, ``cyrillic``, ``han``, …); ``none`` without text.
    """

    tools: bool
    response_format: str
    temperature: float | None
    mode: str
    script: str


def _pages() -> bytes:
    """One script code per high byte of UTF-16: counting by page of 256 code points stays inside C."""
    table = bytearray(b"o" * 256)
    spans = {
        "l": [(0x00, 0x02), (0x1E, 0x1E)],
        "g": [(0x03, 0x03), (0x1F, 0x1F)],
        "c": [(0x04, 0x04)],
        "h": [(0x05, 0x05)],
        "a": [(0x06, 0x08), (0xFB, 0xFE)],
        "d": [(0x09, 0x0D)],
        "t": [(0x0E, 0x0E)],
        "j": [(0x30, 0x31)],
        "z": [(0x34, 0x9F), (0xF9, 0xFA)],
        "k": [(0x11, 0x11), (0xAC, 0xD7)],
    }
    for code, ranges in spans.items():
        for first, last in ranges:
            table[first : last + 1] = code.encode() * (last + 1 - first)
    return bytes(table)


_PAGES = _pages()
_NAMES = {
    "l": "latin",
    "g": "greek",
    "c": "cyrillic",
    "h": "hebrew",
    "a": "arabic",
    "d": "indic",
    "t": "thai",
    "j": "kana",
    "z": "han",
    "k": "hangul",
    "o": "other",
}
_CONSTRAINTS = frozenset(
    {"grammar", "guided_json", "guided_regex", "guided_grammar", "structured_outputs", "regex", "ebnf"}
)
_MODES = frozenset({"chat_template_kwargs", "thinking", "reasoning", "reasoning_effort"})
_NO_LETTERS = re.compile(r"[\W\d_]+")
_KANA = re.compile("[\u3041-\u30ff]")


def script(text: str) -> str:
    """Writing system of the last 256 characters of a text.

    Letters only; Japanese is told from Chinese by its kana, which any Japanese sentence has.
    """
    tail = text[-SCRIPT_WINDOW:]
    if tail.isascii():
        return "latin" if tail and not tail.isspace() else "none"
    letters = _NO_LETTERS.sub("", tail)
    if not letters:
        return "none"
    if _KANA.search(letters):
        return "kana"
    codes = letters.encode("utf-16-le", "surrogatepass")[1::2].translate(_PAGES).decode("ascii")
    return max(_NAMES.items(), key=lambda item: codes.count(item[0]))[1]


def read(body: Mapping[str, Any], text: str) -> SliceFacts:
    """Slice facts of a parsed request body; ``text`` is the end of its prompt. Odd values read as absent."""
    temperature = body.get("temperature")
    number = isinstance(temperature, (int, float)) and not isinstance(temperature, bool)
    return SliceFacts(
        tools=bool(body.get("tools") or body.get("functions")),
        response_format=_response_format(body),
        temperature=float(temperature) if number and temperature is not None else None,
        mode=_mode(body),
        script=script(text),
    )


def _response_format(body: Mapping[str, Any]) -> str:
    wanted = body.get("response_format")
    if wanted is None and isinstance(answer := body.get("text"), dict):
        wanted = answer.get("format")  # the Responses API's place for it
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind in ("json_object", "json_schema"):
        return str(kind)
    return "text" if _CONSTRAINTS.isdisjoint(body) else "grammar"


def _mode(body: Mapping[str, Any]) -> str:
    if _MODES.isdisjoint(body):
        return "default"
    template = body.get("chat_template_kwargs")
    if isinstance(template, dict):
        for name in ("enable_thinking", "thinking"):
            if isinstance(template.get(name), bool):
                return "thinking" if template[name] else "direct"
    thinking = body.get("thinking")
    if isinstance(thinking, dict):
        return "direct" if thinking.get("type") == "disabled" else "thinking"
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else body.get("reasoning_effort")
    if isinstance(effort, str):
        return "direct" if effort == "none" else "thinking"
    return "default"
