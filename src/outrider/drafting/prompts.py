"""What the target is asked: turns it makes up itself, conversations from a file, filled templates. All become
scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from ..errors import InvalidDataset
from .chat_format import ChatFormat, Tokens
from .slots import Given, Sampler, Script, Written


@dataclass(frozen=True)
class SelfPrompting:
    """How the target makes up conversations.

    Attributes:
        systems: system prompts, drawn evenly; None for the template's own.
        openers: first words of users' turns, drawn evenly; the target goes on from them. An empty one leaves it free.
        turns: how often conversations of 1, 2, 3, … turns are drawn, as weights.
        user: how the users' turns are drawn.
        user_limit: longest user's turn, in tokens; longer ones are dropped.
        held_out: share of conversations kept for measuring.
    """

    systems: tuple[str | None, ...] = (None,)
    openers: tuple[str, ...] = ("",)
    turns: tuple[float, ...] = (1.0,)
    user: Sampler = field(default_factory=lambda: Sampler(temperature=1.0, min_p=0.05))
    user_limit: int = 128
    held_out: float = 0.02


def self_prompted(
    form: ChatFormat, settings: SelfPrompting, answer: Sampler, limit: int, seed: int, prefix: str = "chat"
) -> Iterator[Script]:
    """Endless scripts in which the target writes both sides.

    The users' turns are drawn, so that no two conversations are alike; the answers as in serving.
    """
    random = Random(seed)
    openings = {system: form.opening(system) for system in settings.systems}
    starts = {opener: form.encode(opener) for opener in settings.openers}
    number = 0
    while True:
        system, opener = random.choice(settings.systems), random.choice(settings.openers)
        turns = random.choices(range(1, len(settings.turns) + 1), weights=settings.turns)[0]
        parts: list[Given | Written] = [Given(openings[system] + starts[opener])]
        for turn in range(turns):
            parts += [Given(form.again)] if turn else []
            parts += [Written(settings.user, settings.user_limit, answer=False), Given(form.bridge)]
            parts += [Written(answer, limit)]
        split = "held_out" if random.random() < settings.held_out else "train"
        yield Script(f"{prefix}-{seed}-{number:07d}", tuple(parts), {"slice": "chat", "split": split, "template": None})
        number += 1


def conversation(
    form: ChatFormat,
    id: str,
    turns: Sequence[str],
    answer: Sampler,
    limit: int,
    *,
    system: str | None,
    note: dict[str, Any],
) -> Script:
    """A script in which users' ``turns`` are given and every answer is the target's."""
    return scripted(form, id, form.opening(system), [form.encode(turn) for turn in turns], answer, limit, note)


def scripted(
    form: ChatFormat,
    id: str,
    opening: Tokens,
    turns: Sequence[Tokens],
    answer: Sampler,
    limit: int,
    note: dict[str, Any],
) -> Script:
    """As :func:`conversation`, of tokens."""
    parts: list[Given | Written] = []
    for number, turn in enumerate(turns):
        before = form.again if number else opening
        parts += [Given((*before, *turn, form.user_stop, *form.bridge)), Written(answer, limit)]
    return Script(id, tuple(parts), note)


def from_file(path: Path, form: ChatFormat, answer: Sampler, limit: int) -> list[Script]:
    """Conversations of a JSONL file: ``{"messages": [{"role", "content"}, …], "id"?, "slice"?, "split"?}`` a line.

    Assistants' turns in it only say where an answer belongs: the target writes them anew, turn by turn.

    Raises:
        InvalidDataset: the file cannot be read, or a line is no conversation; the line is named.
    """
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidDataset(f"The prompts {path} cannot be read", why=str(error)) from None
    scripts = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
            system, turns = _turns(document["messages"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InvalidDataset(
                f"Line {number} of {path.name} is no conversation", why=str(error), remedy='Write {"messages": [...]}.'
            ) from None
        note = {"slice": document.get("slice", "chat"), "split": document.get("split", "train"), "template": None}
        name = str(document.get("id", f"{path.stem}-{number:06d}"))
        scripts.append(conversation(form, name, turns, answer, limit, system=system, note=note))
    return scripts


def _turns(messages: Sequence[dict[str, str]]) -> tuple[str | None, list[str]]:
    """The system prompt, and the users' turns."""
    system = messages[0]["content"] if messages and messages[0]["role"] == "system" else None
    rest = messages[1:] if system is not None else messages
    for number, message in enumerate(rest):
        wanted = ("user", "assistant")[number % 2]
        if message["role"] != wanted or not isinstance(message["content"], str):
            raise ValueError(f"message {number + 1} after the system prompt is no text of the {wanted}")
    turns = [message["content"] for message in rest if message["role"] == "user"]
    if not turns:
        raise ValueError("no user says anything")
    return system, turns
