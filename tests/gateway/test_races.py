"""Several workers that share counts, under any order of events and with the race that they cannot avoid.

Between a worker's look at the shared counts and its own entry, the others may look, too, and see the same free place.
So a replica's bound may be passed, by fewer than there are workers; everything else is as exact as with one.
"""

from __future__ import annotations

from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from outrider.gateway import table as tables
from outrider.gateway.admission import Admission, Ticket
from outrider.gateway.counts import Column, Counts
from outrider.gateway.demand import Demand
from outrider.gateway.table import Replica, Table
from tests.gateway.client import table
from tests.gateway.clock import Clock

WORKERS = 3
CAPACITY = 2
LONG = 100.0
"""Seconds, longer than any deadline here."""


class Racing(Column):
    """A column whose entries the others see late, while a race is on; its own worker sees them at once."""

    def __init__(self, counts: Counts, worker: int) -> None:
        super().__init__(counts, worker)
        self.held: dict[str, int] | None = None

    def add(self, replica: str, amount: int) -> None:
        if self.held is None:
            super().add(replica, amount)
        else:
            self.held[replica] = self.held.get(replica, 0) + amount

    def __getitem__(self, replica: str) -> int:
        return super().__getitem__(replica) + (self.held or {}).get(replica, 0)

    def flush(self) -> None:
        held, self.held = self.held or {}, None
        for replica, amount in held.items():
            super().add(replica, amount)


class Request:
    """A request at one worker."""

    def __init__(self) -> None:
        self.demand = Demand(10, 5)
        self.replica: Replica | None = None
        self.ticket: Ticket | None = None
        self.refused = False

    def granted(self, replica: Replica) -> None:
        assert self.replica is None and not self.refused
        self.replica, self.ticket = replica, None

    def refuse(self, reason: str) -> None:
        assert self.replica is None and not self.refused and reason
        self.refused, self.ticket = True, None


class Worker:
    """One process: its admission, its view of the counts, its requests."""

    def __init__(self, counts: Counts, index: int, clock: Clock, routes: Table) -> None:
        self.column = Racing(counts, index)
        self.requests: list[Request] = []
        self.admission = Admission(
            rng=Random(index), later=clock.later, wake=lambda _: None, deadline=10.0, shared=self.column
        )
        self.swap(routes)

    def swap(self, routes: Table) -> None:
        self.table = routes
        self.admission.swap(routes)

    def arrive(self) -> None:
        request = Request()
        self.requests.append(request)
        endpoint = self.table.endpoints["tiny"]
        replica = self.admission.take(endpoint, (), request.demand)
        if replica is not None:
            request.granted(replica)
            return
        held = self.admission.hold(endpoint, (), request.granted, request.refuse, request.demand)
        if isinstance(held, str):
            request.refuse(held)
        else:
            request.ticket = held

    def running(self) -> list[Request]:
        return [request for request in self.requests if request.replica is not None]

    def waiting(self) -> list[Request]:
        return [request for request in self.requests if request.ticket is not None]

    def end(self, request: Request) -> None:
        assert request.replica is not None
        self.requests.remove(request)
        self.admission.release(request.replica, request.demand)


workers = st.integers(0, WORKERS - 1)


class Machine(RuleBasedStateMachine):
    """Races, ends, departures, dying workers, tables that come to each worker at its own time."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.counts = Counts(WORKERS, rows=16)
        self.routes = tables.parse(table(["http://h:1"], capacity=CAPACITY))
        self.workers = [Worker(self.counts, index, self.clock, self.routes) for index in range(WORKERS)]

    @rule(racing=st.lists(workers, unique=True, min_size=1))
    def arrive(self, racing: list[int]) -> None:
        for index in racing:
            self.workers[index].column.held = {}
            self.workers[index].arrive()
        for index in racing:
            self.workers[index].column.flush()

    @precondition(lambda self: any(worker.running() for worker in self.workers))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from([one for one in self.workers if one.running()]))
        worker.end(data.draw(st.sampled_from(worker.running())))

    @precondition(lambda self: any(worker.waiting() for worker in self.workers))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        worker = data.draw(st.sampled_from([one for one in self.workers if one.waiting()]))
        request = data.draw(st.sampled_from(worker.waiting()))
        assert request.ticket is not None
        worker.requests.remove(request)
        worker.admission.cancel(request.ticket)

    @rule(replicas=st.integers(0, 3), at=st.lists(workers, unique=True))
    def swap(self, replicas: int, at: list[int]) -> None:
        urls = [f"http://h:{1 + index}" for index in range(replicas)]
        self.routes = tables.parse(table(urls, capacity=CAPACITY))
        for index in at:
            self.workers[index].swap(self.routes)

    @rule(index=workers)
    def die(self, index: int) -> None:
        """Killed, and replaced by another with the latest table; its timers are gone with it."""
        self.workers[index].admission.swap(tables.EMPTY)
        self.workers[index].requests.clear()
        self.counts.clear(index)
        self.workers[index] = Worker(self.counts, index, self.clock, self.routes)

    @rule(seconds=st.sampled_from([0.1, 1.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.clock.advance(0.1)  # a place that one worker gave up is seen by the others a moment later
        for worker in self.workers:
            if worker.waiting():
                assert all(worker.column[one] >= CAPACITY for one in worker.table.replicas)

    @invariant()
    def counts_are_exact(self) -> None:
        total: dict[str, int] = {}
        for worker in self.workers:
            own: dict[str, int] = {}
            for request in worker.running():
                assert request.replica is not None
                own[request.replica.id] = own.get(request.replica.id, 0) + 1
            assert worker.admission.loads == own
            assert worker.admission.waiting() == ({"tiny": len(worker.waiting())} if worker.waiting() else {})
            total = {name: total.get(name, 0) + own.get(name, 0) for name in total | own}
        for name in ("r0", "r1", "r2"):
            assert [worker.column[name] for worker in self.workers] == [total.get(name, 0)] * WORKERS

    @invariant()
    def a_bound_is_passed_by_fewer_than_there_are_workers(self) -> None:
        assert all(self.workers[0].column[name] < CAPACITY + WORKERS for name in ("r0", "r1", "r2"))

    def teardown(self) -> None:
        self.clock.advance(LONG)
        for worker in self.workers:
            assert not worker.waiting() and not worker.admission.waiting()
            for request in worker.running():
                worker.end(request)
            assert not worker.admission.loads and not worker.admission.outstanding
        assert all(self.workers[0].column[name] == 0 for name in ("r0", "r1", "r2"))


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestWorkers = Machine.TestCase
