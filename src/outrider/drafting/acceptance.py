"""Acceptance that was measured: τ with intervals, for each slice and each position of a block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class RecordAcceptance:
    """The blocks of one record.

    Attributes:
        slice: the record's.
        stood: ``[blocks, slots]``, the probability that the first k drafts stood; 0 or 1 in greedy answers.
    """

    slice: str
    stood: Tensor


@dataclass(frozen=True)
class Interval:
    """A value and its 95 % interval, by bootstrap over records."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class SliceAcceptance:
    """Acceptance in one slice.

    Attributes:
        slice: its name; ``all`` for everything together.
        records: how many.
        blocks: verification steps; the last of each record is left out where the answer's end cut it short.
        tau: acceptance length, the bonus token included.
        positions: for each k from 1, the share of blocks whose first k drafts stood.
    """

    slice: str
    records: int
    blocks: int
    tau: Interval
    positions: tuple[Interval, ...]


@dataclass(frozen=True)
class Measurement:
    """What :func:`outrider.drafting.evaluation.measure` found.

    Attributes:
        block_size: rows of a block.
        records: in the order in which they were given.
    """

    block_size: int
    records: Sequence[RecordAcceptance]

    def slices(self, *, resamples: int = 1000, seed: int = 0) -> list[SliceAcceptance]:
        """Each slice by name, and ``all`` last; slices without a whole block are left out."""
        names = sorted({record.slice for record in self.records} - {"all"})
        found = []
        for name in [*names, "all"]:
            chosen = [record.stood for record in self.records if name in (record.slice, "all") and len(record.stood)]
            if chosen:
                found.append(_summary(name, chosen, resamples, seed))
        return found

    def tau(self, name: str = "all") -> float:
        """τ of one slice; NaN where it has no whole block."""
        stood = [record.stood for record in self.records if name in (record.slice, "all")]
        rows = torch.cat(stood) if stood else torch.empty(0)
        return 1 + float(rows.double().sum(1).mean()) if len(rows) else float("nan")

    def emit(self, *, resamples: int = 1000, seed: int = 0) -> dict[str, Any]:
        """For JSON: ``block_size`` and ``slices``."""
        return {
            "block_size": self.block_size,
            "slices": [
                {
                    "slice": found.slice,
                    "records": found.records,
                    "blocks": found.blocks,
                    "tau": _emit(found.tau),
                    "positions": [_emit(position) for position in found.positions],
                }
                for found in self.slices(resamples=resamples, seed=seed)
            ],
        }

    def table(self, *, resamples: int = 1000, seed: int = 0) -> str:
        """The same for people: a line a slice."""
        found = self.slices(resamples=resamples, seed=seed)
        rows = [["slice", "records", "steps", "τ", "95 %", *(str(k) for k in range(1, self.block_size))]]
        for one in found:
            rates = [f"{position.value:.2f}" for position in one.positions]
            span = f"{one.tau.low:.2f}–{one.tau.high:.2f}"
            rows.append([one.slice, str(one.records), str(one.blocks), f"{one.tau.value:.2f}", span, *rates])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join(
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
            for row in rows
        )


def ratio(candidate: Measurement, incumbent: Measurement, name: str = "all", *, seed: int = 0) -> Interval:
    """τ of one drafter over τ of another on the same records, paired: each resample takes the same records of both.

    Raises:
        ValueError: they were measured on different records.
    """
    if [r.slice for r in candidate.records] != [r.slice for r in incumbent.records]:
        raise ValueError("the measurements are of different records")
    pairs = zip(candidate.records, incumbent.records, strict=True)
    chosen = [pair for pair in pairs if name in (pair[0].slice, "all") and all(len(one.stood) for one in pair)]
    if not chosen:
        return Interval(*[float("nan")] * 3)
    sums = np.array([[*_sums(a.stood), *_sums(b.stood)] for a, b in chosen])
    drawn = _resample(sums, 1000, seed)
    return _interval((drawn[:, 0] / drawn[:, 1]) / (drawn[:, 2] / drawn[:, 3]))


def _summary(name: str, chosen: Sequence[Tensor], resamples: int, seed: int) -> SliceAcceptance:
    sums = np.array([[*_sums(stood), *stood.double().sum(0).tolist()] for stood in chosen])
    drawn = _resample(sums, resamples, seed)
    blocks = drawn[:, 1]
    positions = tuple(_interval(drawn[:, column] / blocks) for column in range(2, sums.shape[1]))
    return SliceAcceptance(name, len(chosen), int(sums[:, 1].sum()), _interval(drawn[:, 0] / blocks), positions)


def _sums(stood: Tensor) -> tuple[float, float]:
    """Tokens committed and steps taken."""
    return float(stood.double().sum()) + len(stood), float(len(stood))


def _resample(sums: np.ndarray[Any, Any], resamples: int, seed: int) -> np.ndarray[Any, Any]:
    """Column sums: of all records first, then of ``resamples`` draws of as many records."""
    weights = np.random.default_rng(seed).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=resamples)
    return np.vstack((sums.sum(0), weights @ sums))


def _interval(values: np.ndarray[Any, Any]) -> Interval:
    low, high = np.quantile(values[1:], (0.025, 0.975))
    return Interval(float(values[0]), float(low), float(high))


def _emit(interval: Interval) -> dict[str, float]:
    return {name: round(value, 4) for name, value in vars(interval).items()}
