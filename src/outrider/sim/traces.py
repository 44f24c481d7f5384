"""A trace as the simulator sees it: what of each prompt replicas keep, and what of it the gateway can tell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from outrider.gateway import prompt
from outrider.gateway.prompt import BYTES_PER_TOKEN, EDGES
from outrider.loadgen.traces import Arrival

Segment = tuple[int, int]
"""A run of prompt tokens that is cached as one: its identity, and how many tokens it has."""


@dataclass(frozen=True, slots=True)
class SimulatedRequest:
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


def simulated(arrivals: Iterable[Arrival]) -> list[SimulatedRequest]:
    """The requests of a trace, in its order."""
    return [_request(arrival, index) for index, arrival in enumerate(arrivals)]


def _request(arrival: Arrival, index: int) -> SimulatedRequest:
    """``index`` tells what is this request's alone from what it shares."""
    at, shape, messages = arrival
    if messages is None:
        prefix = shape.prefix_id or ""
        segments, blocks = _of_counts(prefix, shape.shared_prefix_tokens, shape.input_tokens, index)
    else:
        blocks = prompt.read({"model": "", "messages": list(messages)}).blocks
        segments = _of_messages(blocks, shape.input_tokens, index)
    return SimulatedRequest(at, shape.input_tokens, shape.output_tokens, shape.affinity_key, segments, blocks)


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
