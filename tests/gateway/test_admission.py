"""Counting and waiting under any order of events: nobody is lost, nothing is counted twice, no capacity is passed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from outrider.gateway import prompt
from outrider.gateway import table as tables
from outrider.gateway.admission import Admission, Ticket
from outrider.gateway.demand import Demand
from outrider.gateway.table import Replica
from tests.gateway.client import table
from tests.gateway.clock import Clock


class Request:
    """One request: in one state at a time."""

    def __init__(self, demand: Demand, granted_in: Callable[[], int]) -> None:
        self.granted_in = granted_in
        self.state = "new"
        self.demand = demand
        self.version = 0
        self.replica: Replica | None = None
        self.ticket: Ticket | None = None

    def granted(self, replica: Replica) -> None:
        assert self.state in ("new", "waiting")
        self.state, self.replica = "running", replica
        self.version = self.granted_in()

    def refused(self, reason: str) -> None:
        assert self.state in ("new", "waiting") and reason
        self.state = "refused"


CAPACITY = 2


class Machine(RuleBasedStateMachine):
    """Arrivals, ends, retries, clients that leave, deadlines and tables in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.woken: list[str] = []
        self.admission = Admission(rng=Random(1), later=self.clock.later, wake=self.woken.append, deadline=10.0, room=5)
        self.requests: list[Request] = []
        self.version = 0
        self.replicas = 0
        self.swap(0, "starting")

    @rule(replicas=st.integers(0, 3), state=st.sampled_from(["starting", "ready", "failed"]))
    def swap(self, replicas: int, state: str) -> None:
        self.version += 1
        urls = [f"http://h:{1000 + index}" for index in range(replicas)]
        self.table = tables.parse(table(urls, capacity=CAPACITY, version=self.version, state=state))
        self.admission.swap(self.table)

    @rule(
        sizes=st.tuples(st.integers(1, 100), st.integers(0, 5)),
        key=st.none() | st.sampled_from("ab"),
        depth=st.integers(0, 3),
    )
    def arrive(self, sizes: tuple[int, int], key: str | None, depth: int) -> None:
        self.seek(Request(Demand(*sizes, key, tuple(range(depth))), lambda: self.version), frozenset())

    def seek(self, request: Request, tried: frozenset[str]) -> None:
        if request not in self.requests:
            self.requests.append(request)
        endpoint = self.table.endpoints["tiny"]
        replica = self.admission.take(endpoint, tried, request.demand)
        if replica is not None:
            request.state = "new"
            request.granted(replica)
            return
        request.state = "waiting"
        held = self.admission.hold(endpoint, tried, request.granted, request.refused, request.demand)
        if isinstance(held, str):
            request.refused(held)
        else:
            request.ticket = held

    def running(self) -> list[Request]:
        return [request for request in self.requests if request.state == "running"]

    @precondition(lambda self: self.running())
    @rule(data=st.data(), retry=st.booleans())
    def end(self, data: st.DataObject, retry: bool) -> None:
        request = data.draw(st.sampled_from(self.running()))
        replica, request.replica = request.replica, None
        assert replica is not None
        request.state = "ended"
        self.admission.release(replica, request.demand)
        if retry:
            self.seek(request, frozenset({replica.id}))

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.running()))
        assert request.replica is not None
        self.admission.progress(request.replica, request.demand)

    @precondition(lambda self: any(request.state == "waiting" for request in self.requests))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from([one for one in self.requests if one.state == "waiting"]))
        assert request.ticket is not None
        self.admission.cancel(request.ticket)
        request.state = "left"

    @rule(seconds=st.sampled_from([1.0, 4.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def counts_are_exact(self) -> None:
        loads: dict[str, int] = {}
        tokens: dict[str, int] = {}
        for request in self.running():
            assert request.replica is not None
            name, left = request.replica.id, request.demand.unread + request.demand.unwritten
            assert 0 <= left <= request.demand.tokens
            loads[name] = loads.get(name, 0) + 1
            tokens[name] = tokens.get(name, 0) + left
        assert self.admission.loads == loads
        assert self.admission.outstanding == tokens
        assert all(0 < load <= CAPACITY for load in loads.values())
        waiting = sum(request.state == "waiting" for request in self.requests)
        assert self.admission.waiting() == ({"tiny": waiting} if waiting else {})
        assert waiting <= 5

    @invariant()
    def who_was_granted_last_got_a_ready_replica(self) -> None:
        for request in self.running():
            if request.version == self.version:
                assert request.replica in self.table.replicas.values()

    @invariant()
    def nobody_new_waits_beside_a_free_replica(self) -> None:
        free = [one for one in self.table.replicas if self.admission.loads.get(one, 0) < CAPACITY]
        if free:
            fresh = [one for one in self.requests if one.state == "waiting" and one.ticket and not one.ticket.tried]
            assert not fresh

    def teardown(self) -> None:
        self.clock.advance(1000.0)
        assert not self.admission.waiting()
        for request in self.running():
            assert request.replica is not None
            self.admission.release(request.replica, request.demand)
        assert not self.admission.loads and not self.admission.outstanding


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAdmission = Machine.TestCase


def test_first_come_first_served() -> None:
    clock = Clock()
    admission = Admission(rng=Random(1), later=clock.later, wake=lambda _: None)
    empty = tables.parse(table())
    admission.swap(empty)
    order: list[int] = []

    def granted(index: int) -> Callable[[Replica], None]:
        return lambda _: order.append(index)

    for index in range(4):
        admission.hold(empty.endpoints["tiny"], (), granted(index), lambda _: None)
    admission.swap(tables.parse(table(["http://h:1"], capacity=3)))
    assert order == [0, 1, 2]
    admission.release(tables.parse(table(["http://h:1"])).replicas["r0"])
    assert order == [0, 1, 2, 3]


def test_what_a_replica_was_sent_before_is_no_work_again() -> None:
    admission = Admission(rng=Random(1), later=Clock().later, wake=lambda _: None)
    here = tables.parse(table(["http://h:1"]))
    blocks = tuple(range(4))
    for expected in (5000 + 7, 5000 - prompt.tokens(4) + 7):
        asked = Demand(5000, 7, None, blocks)
        replica = admission.take(here.endpoints["tiny"], (), asked)
        assert replica is not None
        assert admission.outstanding == {"r0": expected}
        admission.progress(replica, asked)
        assert admission.outstanding == {"r0": 6}
        admission.release(replica, asked)
        assert admission.outstanding == {}


def test_endpoint_removed_while_waiting() -> None:
    admission = Admission(rng=Random(1), later=Clock().later, wake=lambda _: None)
    here = tables.parse(table())
    admission.swap(here)
    reasons: list[str] = []
    admission.hold(here.endpoints["tiny"], (), lambda _: None, reasons.append)
    admission.swap(tables.parse(table(name="other")))
    assert reasons == ["Endpoint 'tiny' was removed"]
