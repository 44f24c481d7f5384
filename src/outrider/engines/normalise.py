"""Engines' metrics pages, turned into one shape: pure functions from Prometheus text to :class:`EngineMetrics`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_SAMPLE = re.compile(r"(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?\s*")
_LABEL = re.compile(r'(?P<name>[a-zA-Z_]\w*)="(?P<value>(?:[^"\\]|\\.)*)"')
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of Prometheus text."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """What one engine says of itself at one moment. Totals count from its start; unknown is None, never zero.

    Attributes:
        running: requests being decoded or prefilled.
        waiting: requests that the engine holds in its own queue.
        prompt_tokens: prompt tokens computed, without those taken from a cache.
        cached_tokens: prompt tokens that were not computed because a cache held them.
        generated_tokens: tokens sampled.
        prompt_seconds: time spent on prompts.
        generation_seconds: time spent on generating.
        kv_usage: share of the KV cache in use, 0 to 1.
        drafts: verification steps of speculative decoding.
        drafted_tokens: tokens that drafters proposed.
        accepted_tokens: proposed tokens that the target accepted, the bonus token *not* included.
        accepted_by_position: of those, how many at each position of the draft.
    """

    running: int | None = None
    waiting: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    generated_tokens: int | None = None
    prompt_seconds: float | None = None
    generation_seconds: float | None = None
    kv_usage: float | None = None
    drafts: int | None = None
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_by_position: tuple[int, ...] = ()

    @property
    def acceptance_length(self) -> float | None:
        """τ since the engine's start: tokens committed a verification step, the bonus token included. None: no step."""
        if not self.drafts or self.accepted_tokens is None:
            return None
        return 1.0 + self.accepted_tokens / self.drafts

    def since(self, earlier: EngineMetrics) -> float | None:
        """τ of the steps between two pages of one engine; None: no step, or it restarted meanwhile."""
        if None in (self.drafts, earlier.drafts, self.accepted_tokens, earlier.accepted_tokens):
            return None
        steps = (self.drafts or 0) - (earlier.drafts or 0)
        accepted = (self.accepted_tokens or 0) - (earlier.accepted_tokens or 0)
        return 1.0 + accepted / steps if steps > 0 and accepted >= 0 else None


def samples(text: str) -> list[Sample]:
    """The samples of a page in the Prometheus text format; what is none (comments, junk) is passed over."""
    found = []
    for line in text.splitlines():
        match = None if line.startswith("#") else _SAMPLE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match["value"])
        except ValueError:
            continue
        labels = {label["name"]: _unescape(label["value"]) for label in _LABEL.finditer(match["labels"] or "")}
        found.append(Sample(match["name"], labels, value))
    return found


def llamacpp(text: str) -> EngineMetrics:
    """llama.cpp's page (``llamacpp:…``). It has no KV usage and no label for the model: a process serves one."""
    page = samples(text)
    values = {sample.name: sample.value for sample in page if not sample.labels}

    def count(name: str) -> int | None:
        value = values.get(f"llamacpp:{name}")
        return int(value) if value is not None and math.isfinite(value) else None

    return EngineMetrics(
        running=count("requests_processing"),
        waiting=count("requests_deferred"),
        prompt_tokens=count("prompt_tokens_total"),
        cached_tokens=count("prompt_tokens_cached_total"),
        generated_tokens=count("tokens_predicted_total"),
        prompt_seconds=values.get("llamacpp:prompt_seconds_total"),
        generation_seconds=values.get("llamacpp:tokens_predicted_seconds_total"),
        drafts=count("spec_decode_num_drafts_total"),
        drafted_tokens=count("spec_decode_num_draft_tokens_total"),
        accepted_tokens=count("spec_decode_num_accepted_tokens_total"),
        accepted_by_position=_by_position(page, "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"),
    )


NORMALISERS: Mapping[str, Callable[[str], EngineMetrics]] = {"llamacpp": llamacpp}
"""By engine name."""


def _by_position(page: list[Sample], name: str) -> tuple[int, ...]:
    found = {}
    for sample in page:
        position = sample.labels.get("position", "")
        if sample.name == name and position.isdecimal() and math.isfinite(sample.value):
            found[int(position)] = int(sample.value)
    return tuple(found[position] for position in sorted(found))


def _unescape(text: str) -> str:
    return re.sub(r'\\[\\"n]', lambda match: _ESCAPES[match[0]], text)
