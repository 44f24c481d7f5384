"""Traces: who asked for what, when. One JSON object a line; the format is on docs/reference/trace.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from outrider.errors import InvalidTrace, NotFound, UsageError
from outrider.gateway import prompt
from outrider.gateway.prompt import BYTES_PER_TOKEN, EDGES

Segment = tuple[int, int]
"""A run of prompt tokens that is cached as one: its identity, and how many tokens it has."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request of a trace.

    Attributes:
        at: seconds since the trace's start.
        input_tokens: of its prompt.
        output_tokens: of its answer.
        affinity_key: what its client names, or None.
        segments: its prompt from the start, as replicas cache it; what nobody else sends is its last one.
        blocks: hashes of its leading blocks, as the gateway sees them.
    """

    at: float
    input_tokens: int
    output_tokens: int
    affinity_key: str | None
    segments: tuple[Segment, ...]
    blocks: tuple[int, ...]


def load(path: Path) -> list[Arrival]:
    """Read a trace file.

    Raises:
        NotFound: there is no such file.
        InvalidTrace: a line breaks the format, the file cannot be read, or holds no request.
    """
    try:
        with path.open(encoding="utf-8") as file:
            return parse(file, str(path))
    except FileNotFoundError as error:
        raise NotFound(f"No trace {path}", remedy="Make one: outrider sim trace --profile agentic > FILE") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidTrace(f"Cannot read the trace {path}", why=str(error)) from error


def parse(lines: Iterable[str], name: str) -> list[Arrival]:
    """Read the lines of a trace, in the order of their times; empty ones are skipped.

    Raises:
        InvalidTrace: a line breaks the format, or there is no request.
    """
    arrivals = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                arrivals.append(arrival(json.loads(line), number))
            except (ValueError, RecursionError) as error:
                raise InvalidTrace(
                    f"Line {number} of {name} is no request", why=str(error), remedy="See docs/reference/trace.md."
                ) from error
    if not arrivals:
        raise InvalidTrace(f"{name} holds no request", remedy="Make one: outrider sim trace --profile agentic > FILE")
    return sorted(arrivals, key=lambda one: one.at)


def arrival(fields: Any, index: int) -> Arrival:
    """One request of a trace; ``index`` tells what is its alone from what it shares.

    Raises:
        ValueError: a field is missing or of the wrong kind.
    """
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    key = fields.get("affinity_key")
    output = _count(fields, "output_tokens", None)
    at = _seconds(fields)
    if fields.get("messages") is not None:
        if not isinstance(fields["messages"], list):
            raise ValueError("messages: not a list")
        read = prompt.read({"model": "", "messages": fields["messages"]})
        tokens = _count(fields, "input_tokens", read.input_tokens)
        segments, blocks = _of_messages(read.blocks, tokens, index), read.blocks
    else:
        tokens = _count(fields, "input_tokens", None)
        shared = min(tokens, _count(fields, "shared_prefix_tokens", 0))
        prefix = fields.get("prefix_id")
        if shared and prefix is None:
            raise ValueError("prefix_id: missing beside shared_prefix_tokens")
        segments, blocks = _of_counts(str(prefix), shared, tokens, index)
    return Arrival(at, tokens, output, None if key is None else str(key), segments, blocks)


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of traffic.

    Attributes:
        input_tokens: new ones of a request.
        shared_tokens: those that requests of one source begin with.
        output_tokens: of an answer, on average.
        sources: how many different beginnings there are.
        grows: whether a source's beginning grows by each of its requests: a conversation.
        keyed: whether clients name an affinity key.
    """

    input_tokens: int
    shared_tokens: int
    output_tokens: int
    sources: int
    grows: bool
    keyed: bool


PROFILES = {
    "realtime": Profile(1000, 2000, 100, sources=12, grows=False, keyed=False),
    "agentic": Profile(5000, 45_000, 200, sources=16, grows=False, keyed=True),
    "chat": Profile(120, 400, 200, sources=100, grows=True, keyed=False),
}
"""``realtime``: 3,000 tokens in, 100 out. ``agentic``: 45,000 shared and 5,000 new ones in, 200 out. ``chat``:
conversations that send all that was said before with every turn, and end after some ten of them."""

_TURNS = 10


def profile(name: str) -> Profile:
    """The profile of that name. Raises UsageError for an unknown one."""
    if name not in PROFILES:
        raise UsageError(f"There is no profile {name!r}", remedy=f"Choose among: {', '.join(PROFILES)}.")
    return PROFILES[name]


def generate(kind: Profile, *, seconds: float, rate: float, seed: int) -> Iterator[dict[str, Any]]:
    """The requests of a trace: Poisson arrivals, sources of unequal weight (Zipf), lengths spread by a third.

    Args:
        kind: of traffic.
        seconds: how long.
        rate: requests a second.
        seed: the same seed gives the same trace.
    """
    rng = Random(seed)
    weights = [1 / (1 + source) for source in range(kind.sources)]
    said = [kind.shared_tokens] * kind.sources
    lives = [0] * kind.sources
    at = rng.expovariate(rate)
    while at < seconds:
        source = rng.choices(range(kind.sources), weights)[0]
        new, output = _around(kind.input_tokens, rng), _around(kind.output_tokens, rng)
        name = f"{source}.{lives[source]}" if kind.grows else str(source)
        shared = said[source]
        if kind.grows:  # the whole prompt is what the next turn begins with, and the answer is part of that turn
            shared += new
            said[source] = shared + output
            if rng.random() < 1 / _TURNS:
                said[source], lives[source] = kind.shared_tokens, lives[source] + 1
        fields = {
            "at": round(at, 4),
            "input_tokens": shared if kind.grows else shared + new,
            "output_tokens": output,
            "shared_prefix_tokens": shared,
            "prefix_id": name,
        }
        yield fields | ({"affinity_key": name} if kind.keyed else {})
        at += rng.expovariate(rate)


def _around(mean: int, rng: Random) -> int:
    return max(1, round(rng.gauss(mean, mean / 3)))


def _of_counts(prefix: str, shared: int, tokens: int, index: int) -> tuple[tuple[Segment, ...], tuple[int, ...]]:
    common, own = hash(("prefix", prefix)), hash(("request", index))
    segments = ((common, shared), (own, tokens - shared))
    ends = [end for end in EDGES if end <= tokens * BYTES_PER_TOKEN]
    blocks = tuple(hash((common if end <= shared * BYTES_PER_TOKEN else own, end)) for end in ends)
    return tuple(segment for segment in segments if segment[1]), blocks


def _of_messages(blocks: tuple[int, ...], tokens: int, index: int) -> tuple[Segment, ...]:
    segments, before = [], 0
    for block, end in zip(blocks, EDGES, strict=False):
        size = min(end // BYTES_PER_TOKEN, tokens) - before
        if size > 0:
            segments.append((block, size))
            before += size
    if tokens > before:
        segments.append((hash(("request", index)), tokens - before))
    return tuple(segments)


def _count(fields: dict[str, Any], name: str, default: int | None) -> int:
    value = fields.get(name, default)
    if value is None:
        raise ValueError(f"{name}: missing")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**9:
        raise ValueError(f"{name}: {value!r} is no whole number from 0 to 10⁹")
    return value


def _seconds(fields: dict[str, Any]) -> float:
    value = fields.get("at")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e9:
        raise ValueError(f"at: {value!r} is no number of seconds from 0 to 10⁹")
    return float(value)
