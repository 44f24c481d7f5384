"""The target answers scripts: in this process, or through an engine; what it says becomes rows of data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from .dataset import Row
from .slots import Script, SlotWriter, Text
from .target import Target


class Writer(Protocol):
    """Whatever turns scripts into texts."""

    def write(self, scripts: Iterator[Script], report: Callable[[int], None] = ...) -> Iterator[Text]:
        """Texts as they are finished; ``report`` hears how many tokens were read or written since it last did."""
        ...


@dataclass(frozen=True)
class Slots:
    """How much is written at once in this process.

    Attributes:
        number: texts at once.
        width: longest text, in tokens.
    """

    number: int = 32
    width: int = 640


def in_process(target: Target, slots: Slots, *, stops: Iterable[int], seed: int, top_p: bool = False) -> SlotWriter:
    """The target itself as a writer."""
    return SlotWriter(target, slots=slots.number, width=slots.width, stops=stops, seed=seed, top_p=top_p)


def rows(texts: Iterable[Text], user_stop: int) -> Iterator[Row]:
    """Rows of data out of finished texts.

    An answer that was cut short is kept without an end-of-turn token, so that nobody learns to stop there. Texts whose
    user's turn the target ended otherwise, or left empty, are dropped.
    """
    for text in texts:
        users = [(start, end) for start, end, written, _ in text.spans if not written.answer]
        if any(end - start < 3 or text.tokens[end - 1] != user_stop for start, end in users):
            continue
        answers = [(start, end) for start, end, written, _ in text.spans if written.answer and end > start]
        note: dict[str, Any] = text.script.note
        yield Row(text.script.id, note["slice"], note["split"], note["template"], text.tokens, answers)


def until(scripts: Iterator[Script], deadline: float, clock: Callable[[], float] = time.monotonic) -> Iterator[Script]:
    """The scripts that begin before ``deadline``."""
    for script in scripts:
        if clock() >= deadline:
            return
        yield script
