"""Prompts of a given number of tokens for a model whose tokenizer is not at hand.

Plain English words are one token each in most vocabularies, and how many tokens a prompt of n words makes with *this*
server is a straight line: two calibration requests give its slope and its intercept (the chat template).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from outrider.loadgen.profiles import Shape

_TEXT = (
    "time year people way day man thing woman life child world school state family student group country problem hand "
    "part place case week company system program question work government number night point home water room mother "
    "area money story fact month lot right study book eye job word business issue side kind head house service friend "
    "father power hour game line end member law car city community name president team minute idea body information "
    "back parent face others level office door health person art war history party result change morning reason "
    "research girl guy moment air teacher force education foot boy age policy music market sense nation plan college "
    "interest death experience effect use class control field development role effort rate heart drug show leader "
    "light voice wife police mind price report decision son view relationship town road arm difference value building "
    "action season society tax director position player record paper space ground form event official matter center"
)
_WORDS = _TEXT.split()

_BYTES_PER_TOKEN = 4
"""UTF-8 bytes a token stands for: 3 to 5 with the vocabularies in use."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Tokens of a prompt: ``overhead`` + ``per_word`` × words, as this server counts."""

    per_word: float = 1.0
    overhead: float = 0.0

    def words(self, tokens: int) -> int:
        """How many words make about ``tokens`` tokens; at least one."""
        return max(1, round((tokens - self.overhead) / self.per_word))


def calibrated(short: tuple[int, int], long: tuple[int, int]) -> Calibration:
    """From two measured prompts, each (words, tokens)."""
    per_word = (long[1] - short[1]) / (long[0] - short[0])
    if per_word <= 0:
        return Calibration()
    return Calibration(per_word, max(0.0, short[1] - per_word * short[0]))


class PromptWriter:
    """Writes prompts that share exactly what they should.

    Args:
        calibration: words to tokens.
        salt: what makes this run's text unlike any other's: a server that remembers an earlier run's prompts would
            answer faster than it does for users. The same salt gives the same text.
    """

    def __init__(self, calibration: Calibration, salt: str) -> None:
        self._calibration = calibration
        self._salt = salt
        self._prefixes: dict[tuple[str, int], str] = {}

    def messages(self, shape: Shape, number: int) -> list[dict[str, Any]]:
        """Chat messages for request ``number``: the shared beginning as system message, then words of its own."""
        words = self._calibration.words(shape.input_tokens)
        shared = 0
        messages = []
        if shape.prefix_id is not None and shape.shared_prefix_tokens > 0:
            shared = min(words - 1, max(1, round(shape.shared_prefix_tokens / self._calibration.per_word)))
            messages.append({"role": "system", "content": self._prefix(shape.prefix_id, shared)})
        own = random.Random(f"{self._salt}/{number}")
        messages.append({"role": "user", "content": text(own, words - shared)})
        return messages

    def _prefix(self, identifier: str, words: int) -> str:
        key = (identifier, words)
        if key not in self._prefixes:
            self._prefixes[key] = text(random.Random(f"{self._salt}/prefix/{identifier}"), words)
        return self._prefixes[key]


def text(rng: random.Random, words: int) -> str:
    """Random words. They differ from the first one on, so that no two prompts share a beginning by chance."""
    return " ".join(rng.choices(_WORDS, k=words))


def estimated_tokens(messages: Sequence[Mapping[str, Any]]) -> int:
    """About how many tokens chat messages are, from the bytes of their texts and roles, as the gateway estimates them.
    Images and other parts that are no text count nothing.
    """
    pieces = (piece for message in messages for piece in (f"<{message.get('role')}>", *_texts(message)))
    return max(1, sum(len(piece.encode("utf-8", "surrogatepass")) for piece in pieces) // _BYTES_PER_TOKEN)


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content", message.get("text"))
    for part in content if isinstance(content, list) else [content] if isinstance(content, str) else []:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            yield text
