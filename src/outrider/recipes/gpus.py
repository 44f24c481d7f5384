"""What is known of kinds of GPU and of CPUs: memory, bandwidth, rates and default prices, each with its source."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from outrider.spec.base import SpecModel

TABLE = Path(__file__).with_name("gpus.yaml")
"""The file of the facts."""


class GpuFacts(SpecModel):
    """One kind of GPU. Rates are of dense matrix products, as sold."""

    name: str
    """As recipes and specs name it (``H200``)."""
    aliases: tuple[str, ...] = ()
    """Further names, parts of what drivers say."""
    memory_bytes: int = Field(gt=0)
    """Usable memory, bytes."""
    bandwidth: float = Field(gt=0)
    """Of its memory, bytes a second."""
    bf16: float = Field(gt=0)
    """Operations a second in bf16."""
    fp8: float | None = None
    """In fp8. None: it has no such units, and computes in bf16."""
    fp4: float | None = None
    """In fp4. None: it has no such units."""
    usd_per_hour: float | None = Field(default=None, gt=0)
    """Default price of one GPU, US dollars an hour. None: not known."""
    source: str
    """Where the figures stand."""


class CpuFacts(SpecModel):
    """A core of a machine nobody measured."""

    bandwidth_per_core: float = Field(gt=0)
    """Bytes a second that one core reads."""
    bandwidth_most: float = Field(gt=0)
    """Bytes a second that all cores together read."""
    rate_per_core: float = Field(gt=0)
    """Operations a second of one core."""
    usd_per_core_hour: float = Field(gt=0)
    """Default price of a core, US dollars an hour."""
    source: str
    """Where the figures stand."""
    price_source: str
    """Where the price stands."""


@cache
def gpus() -> tuple[GpuFacts, ...]:
    """Every kind known."""
    return tuple(GpuFacts.model_validate(entry) for entry in _table()["gpus"])


@cache
def cpu() -> CpuFacts:
    """The CPU row."""
    return CpuFacts.model_validate(_table()["cpu"])


def gpu_facts(name: str) -> GpuFacts | None:
    """The kind that a name means: a recipe's, or a driver's (``NVIDIA H100 80GB HBM3``). None: not known.

    Whole words decide, however they are joined (``RTX4090`` is an ``RTX 4090``, ``GH200`` no ``H200``), and of several
    kinds the one named by most words.
    """
    words = _words(name)
    found = [
        (len(part), kind) for kind in gpus() for part in map(_words, (kind.name, *kind.aliases)) if _holds(words, part)
    ]
    return max(found, key=lambda pair: pair[0])[1] if found else None


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+|\d+", name.lower())


def _holds(words: list[str], part: list[str]) -> bool:
    return any(words[at : at + len(part)] == part for at in range(len(words) - len(part) + 1))


@cache
def _table() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return content
