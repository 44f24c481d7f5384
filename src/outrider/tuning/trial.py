"""One trial: a setting under load, what its requests saw, or why it lost. Data only."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from outrider.loadgen.load import Load
from outrider.loadgen.statistics import quantile
from outrider.tuning.settings import Setting


class Sample(NamedTuple):
    """One request, all of whose answer came. Durations are seconds.

    Attributes:
        number: which request of its load; the same number is the same prompt in every trial.
        ttft: from when it was due to its first content.
        itl: (last − first content event) ÷ (tokens − 1); None for one token.
        e2e: from when it was due to its last byte.
        tokens: of its answer.
    """

    number: int
    ttft: float
    itl: float | None
    e2e: float
    tokens: int

    @property
    def cost(self) -> float:
        """Seconds a token, waiting included: e2e ÷ tokens, the normalised latency of Kwon et al. (SOSP 2023, §6.1)."""
        return self.e2e / max(1, self.tokens)


@dataclass(frozen=True, slots=True)
class Loaded:
    """What one load of one kind of traffic gave.

    Attributes:
        kind: of traffic.
        concurrency: requests in flight, held constant; None: an open loop.
        rate: requests a second of an open loop.
        seconds: from the first request to the last byte.
        samples: one a request.
        acceptance_length: τ of its verification steps, the bonus token included; None: nothing drafted.
        output_tps, total_tps: tokens a second over all its requests.
    """

    kind: str
    concurrency: int | None
    rate: float | None
    seconds: float
    samples: tuple[Sample, ...]
    acceptance_length: float | None
    output_tps: float
    total_tps: float

    @property
    def in_flight(self) -> float:
        """Requests in flight on average (Little's law)."""
        return sum(sample.e2e for sample in self.samples) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a setting's replica.

    Attributes:
        loads: those it went through, in order.
        failure: why it lost, on one line; None: every request of every load was answered.
        cut: time ran out, which is not the setting's fault.
        start_seconds: until it was ready; None: it never was.
    """

    loads: tuple[Loaded, ...] = ()
    failure: str | None = None
    cut: bool = False
    start_seconds: float | None = None


class Bench(Protocol):
    """Runs trials. The real one is :class:`outrider.tuning.replica.ReplicaBench`."""

    def run(self, setting: Setting, loads: Sequence[Load], limit: float) -> Outcome:
        """Start a replica with a setting, put it under the loads one after another, and end it, within ``limit``
        seconds. A load's label names its kind of traffic."""
        ...


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial that was made.

    Attributes:
        stage: what it was made for: ``first look``, a stage of the search, ``confirmation`` or ``curve``.
        rung, turn: of its stage, from 0.
        seconds: it took, start and end of its replica included.
    """

    setting: Setting
    stage: str
    rung: int
    turn: int
    seconds: float
    outcome: Outcome

    @property
    def counts(self) -> bool:
        """It went through all its loads without a failed request."""
        return self.outcome.failure is None and not self.outcome.cut

    def costs(self) -> dict[tuple[str, int], float]:
        """Kind and number of each request → seconds a token."""
        return {(load.kind, sample.number): sample.cost for load in self.outcome.loads for sample in load.samples}

    def as_dict(self) -> dict[str, Any]:
        """For JSON, single requests included."""
        return {
            "setting": describe(self.setting),
            "stage": self.stage,
            "rung": self.rung,
            "turn": self.turn,
            "seconds": round(self.seconds, 3),
            "start_seconds": self.outcome.start_seconds,
            "failure": self.outcome.failure,
            "cut": self.outcome.cut,
            "loads": [_told(load) for load in self.outcome.loads],
        }


def describe(setting: Setting) -> dict[str, Any]:
    """A setting for JSON: its label, the flags that differ, the speculation."""
    speculation = setting.speculation.model_dump(mode="json", exclude={"reason"}, exclude_none=True)
    return {"label": setting.label, "drafting": setting.drafting, "flags": dict(setting.flags),
            "speculation": speculation}  # fmt: skip


def pooled(loads: Sequence[Loaded]) -> dict[str, Any] | None:
    """Loads together: medians and 95th percentiles of their requests, τ over all their steps; None without a sample.

    Rates are the median load's.
    """
    samples = [sample for load in loads for sample in load.samples]
    if not samples:
        return None
    itl = sorted(sample.itl for sample in samples if sample.itl is not None)
    found: dict[str, Any] = {
        "requests": len(samples),
        "cost_p50": statistics.median(sample.cost for sample in samples),
        "in_flight": statistics.fmean(load.in_flight for load in loads),
        "acceptance_length": _acceptance_length(loads),
        "output_tps": statistics.median(load.output_tps for load in loads),
        "total_tps": statistics.median(load.total_tps for load in loads),
    }
    for name, values in (("ttft", sorted(sample.ttft for sample in samples)), ("itl", itl)):
        found[f"{name}_p50"] = quantile(values, 0.5) if values else None
        found[f"{name}_p95"] = quantile(values, 0.95) if values else None
    return found


def _acceptance_length(loads: Sequence[Loaded]) -> float | None:
    """τ of loads together: a load of many steps counts more than one of few. None: nothing drafted."""
    tokens = steps = 0.0
    for load in loads:
        if load.acceptance_length is not None:
            committed = sum(sample.tokens for sample in load.samples)
            tokens += committed
            steps += committed / load.acceptance_length
    return tokens / steps if steps else None


def _told(load: Loaded) -> Mapping[str, Any]:
    return {
        "kind": load.kind,
        "concurrency": load.concurrency,
        "rate": load.rate,
        "seconds": round(load.seconds, 4),
        "in_flight": round(load.in_flight, 3),
        "acceptance_length": None if load.acceptance_length is None else round(load.acceptance_length, 4),
        "output_tps": round(load.output_tps, 2),
        "total_tps": round(load.total_tps, 2),
        "samples": [
            [s.number, round(s.ttft, 5), None if s.itl is None else round(s.itl, 6), round(s.e2e, 5), s.tokens]
            for s in load.samples
        ],
    }
