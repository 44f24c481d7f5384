"""Two kinds of traffic with real texts: chat, and JSON that repeats its prompt. The same seed gives the same."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from outrider.loadgen.prompts import estimated_tokens

OUTPUT_TOKENS = 64
"""Of every answer: a paragraph, or some records."""
_REQUESTS = 48
"""Of each kind, more than any trial sends."""

_ASKED = (
    "Why does {} matter for {}? Explain it to a curious student.",
    "Give me three practical tips on {} for somebody who likes {}.",
    "Write a short letter to a friend about {} and {}.",
    "What would change in a small town if {} and {} were free for everybody?",
    "Compare {} with {} in a few sentences.",
    "Tell a short story in which {} saves {}.",
)
_TOPICS = (
    "gardening", "clean water", "public libraries", "night trains", "sourdough bread", "bees", "chess", "old maps",
    "solar panels", "choir singing", "rivers in spring", "bicycles", "lighthouses", "pottery", "the moon", "patience",
    "good sleep", "folk songs", "winter coats", "street markets", "handwriting", "mountain huts", "ferries", "tea",
)  # fmt: skip
_NAMES = ("Amara", "Bela", "Chidi", "Dora", "Emil", "Farah", "Goran", "Hana", "Ines", "Jonas", "Kaya", "Lena")
_CITIES = ("Lisbon", "Oslo", "Quito", "Hanoi", "Accra", "Riga", "Lima", "Cork")


def write(directory: Path, *, concurrency: int, seed: int = 1) -> Path:
    """Two traces and the workload file that mixes them half and half; the workload file."""
    for kind, asked in texts(_REQUESTS, seed=seed).items():
        lines = (_line(number, text) for number, text in enumerate(asked))
        (directory / f"{kind}.jsonl").write_text("".join(lines), encoding="utf-8")
    workload = directory / "chat-and-json.yaml"
    workload.write_text(
        f"concurrency: {concurrency}\nkinds:\n  chat: {{trace: chat.jsonl}}\n  json: {{trace: json.jsonl}}\n"
    )
    return workload


def texts(number: int, *, seed: int = 1) -> dict[str, list[str]]:
    """What users say: ``number`` texts of each kind."""
    rng = random.Random(seed)
    return {kind: [make(rng) for _ in range(number)] for kind, make in (("chat", _chat), ("json", _json))}


def _line(number: int, text: str) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    tokens = estimated_tokens(messages)
    arrival = {"at": float(number), "input_tokens": tokens, "output_tokens": OUTPUT_TOKENS, "messages": messages}
    return json.dumps(arrival) + "\n"


def _chat(rng: random.Random) -> str:
    first, second = rng.sample(_TOPICS, 2)
    return rng.choice(_ASKED).format(first, second)


def _json(rng: random.Random) -> str:
    """Records to be said again: what tools and extraction answer with."""
    records = [
        {"name": name, "city": rng.choice(_CITIES), "age": rng.randint(18, 80), "active": rng.random() < 0.5}
        for name in rng.sample(_NAMES, 3)
    ]
    return f"Repeat this JSON exactly, and write nothing else:\n{json.dumps(records, indent=1)}"
