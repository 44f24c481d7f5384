"""A trace replayed through one policy: the gateway's own counting and waiting, over simulated replicas and time."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from random import Random

from outrider.gateway import table as tables
from outrider.gateway.admission import Admission
from outrider.gateway.affinity import Policy
from outrider.gateway.demand import EXPECTED_OUTPUT, Demand
from outrider.gateway.table import Replica, Stickiness, Table
from outrider.sim.clock import Clock
from outrider.sim.replicas import Hardware, SimulatedReplica
from outrider.sim.traces import SimulatedRequest

_ENDPOINT = "simulated"
_FOREVER = 1e12


@dataclass(frozen=True, slots=True)
class Scene:
    """What a trace is replayed against.

    Attributes:
        replicas: how many.
        hardware: what each can do.
        ttft_penalty: seconds of waiting taken on for a cached prefix (:class:`outrider.gateway.table.Stickiness`); the
            prefill rate is the hardware's.
        seed: of every draw; the same seed gives the same result.
    """

    replicas: int = 4
    hardware: Hardware = field(default_factory=Hardware)
    ttft_penalty: float = Stickiness().ttft_penalty
    seed: int = 0

    @property
    def slack(self) -> int:
        """Outstanding tokens by which an affine replica may exceed the least loaded one."""
        return Stickiness(self.hardware.prefill_rate, self.ttft_penalty).slack


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of one duration over all requests, in seconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one policy made of a trace.

    Attributes:
        requests: that were served: all of them.
        hit_rate: share of prompt tokens that were found in the cache of the replica they went to.
        imbalance: variance over mean of the requests in flight per replica, seen by each arrival and averaged over
            them. 0 is even; requests thrown at random give about 1.
        wait: from arrival until a replica begins to read the prompt.
        ttft: from arrival to the first token.
        tokens: prompt tokens read by each replica, in the order of their ids.
    """

    requests: int
    hit_rate: float
    imbalance: float
    wait: Percentiles
    ttft: Percentiles
    tokens: tuple[int, ...]


class _Run:
    """One replay under way."""

    def __init__(self, policy: Policy, scene: Scene, on_done: Callable[[], None]) -> None:
        self.clock = Clock()
        self.table = _table(scene)
        self.replicas = {name: SimulatedReplica(scene.hardware, self.clock) for name in self.table.replicas}
        self.admission = Admission(
            rng=Random(scene.seed),
            later=self.clock.later,
            wake=lambda _: None,
            deadline=_FOREVER,
            room=10**9,
            policy=policy,
        )
        self.admission.swap(self.table)
        self.dispersions: list[float] = []
        self.waits: list[float] = []
        self.ttfts: list[float] = []
        self._on_done = on_done

    def arrive(self, request: SimulatedRequest) -> None:
        """What the gateway does with a request."""
        loads = [self.admission.loads.get(name, 0) for name in self.replicas]
        if any(loads):
            self.dispersions.append(statistics.pvariance(loads) / statistics.fmean(loads))
        asked = Demand(
            max(1, request.input_tokens),
            min(request.output_tokens, EXPECTED_OUTPUT),
            request.affinity_key,
            request.blocks,
        )
        endpoint = self.table.endpoints[_ENDPOINT]
        replica = self.admission.take(endpoint, (), asked)
        if replica is None:
            self.admission.hold(endpoint, (), lambda granted: self._send(request, asked, granted), _refused, asked)
        else:
            self._send(request, asked, replica)

    def _send(self, request: SimulatedRequest, asked: Demand, replica: Replica) -> None:
        def written(tokens: int) -> None:
            for _ in range(tokens):
                self.admission.progress(replica, asked)
            if not tokens:
                self.admission.release(replica, asked)
                self._on_done()

        begin, first = self.replicas[replica.id].serve(request, written)
        self.waits.append(begin - request.at)
        self.ttfts.append(first - request.at)


def replay(
    trace: Sequence[SimulatedRequest], policy: Policy, scene: Scene, *, on_done: Callable[[], None] = lambda: None
) -> Outcome:
    """Replay a trace to the end of its last answer.

    Args:
        trace: in the order of its times; not empty.
        policy: a fresh one.
        scene: the replicas.
        on_done: called after each request.
    """
    run = _Run(policy, scene, on_done)
    for request in trace:
        run.clock.at(request.at, lambda request=request: run.arrive(request))  # type: ignore[misc]
    while run.clock.step():
        pass
    hits, read = sum(one.hits for one in run.replicas.values()), sum(one.read for one in run.replicas.values())
    return Outcome(
        requests=len(run.waits),
        hit_rate=hits / max(1, hits + read),
        imbalance=statistics.fmean(run.dispersions) if run.dispersions else 0.0,
        wait=_percentiles(run.waits),
        ttft=_percentiles(run.ttfts),
        tokens=tuple(one.read for one in run.replicas.values()),
    )


def _percentiles(values: Sequence[float]) -> Percentiles:
    ordered = sorted(values)
    return Percentiles(*(ordered[max(0, ceil(len(ordered) * share) - 1)] for share in (0.5, 0.95, 0.99)))


def _refused(reason: str) -> None:
    raise AssertionError(reason)  # the room is endless and so is the deadline


def _table(scene: Scene) -> Table:
    hardware = scene.hardware
    width = len(str(scene.replicas))
    return tables.parse(
        {
            "epoch": "simulated",
            "version": 1,
            "require_keys": False,
            "endpoints": [
                {
                    "name": _ENDPOINT,
                    "task": "generate",
                    "created": 0,
                    "unauthenticated": True,
                    "state": "ready",
                    "revisions": [{"number": 1, "digest": "", "weight": 100}],
                    "max_concurrency": hardware.max_concurrency,
                    "stickiness": {"prefill_rate": hardware.prefill_rate, "ttft_penalty": scene.ttft_penalty},
                }
            ],
            "replicas": [
                {
                    "id": f"r{index:0{width}}",
                    "endpoint": _ENDPOINT,
                    "revision": 1,
                    "url": "http://127.0.0.1:1",
                }
                for index in range(scene.replicas)
            ],
            "keys": [],
        }
    )
