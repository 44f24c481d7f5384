"""How many requests a replica may hold, and where the others wait: bounded, fair between keys, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from random import Random
from typing import Protocol

from outrider.gateway import prompt
from outrider.gateway.affinity import Policy, affine, share
from outrider.gateway.balancer import Loads, candidates
from outrider.gateway.counts import Column
from outrider.gateway.demand import Demand
from outrider.gateway.prefixes import PrefixIndex
from outrider.gateway.room import Room
from outrider.gateway.suspects import Suspects
from outrider.gateway.table import EMPTY, Endpoint, Replica, Table

DEADLINE = 30.0
"""Seconds a request is held: longer than a small replica takes to come up, shorter than clients' usual 60 s timeout."""

ROOM = 1024
"""Requests held per endpoint: each holds its body, so the bound is one on memory."""

_LOOK = 0.02
"""Seconds between two looks at what other workers have freed, while somebody waits."""

_HOPELESS = frozenset({"stopped", "failed"})

_UNREAD = Demand()
_UNREAD.unread = 1
"""Of a request whose body is not read: one token, so that such requests are balanced by their number."""


class Timer(Protocol):
    """What :meth:`asyncio.loop.call_later` returns."""

    def cancel(self) -> None:
        """Never call back."""
        ...


class Ticket:
    """A place in the waiting room. Exactly one of its two callbacks is called, unless it is cancelled."""

    __slots__ = ("demand", "endpoint", "live", "on_refused", "on_replica", "timer", "tried")

    def __init__(
        self,
        endpoint: str,
        tried: Collection[str],
        on_replica: Callable[[Replica], None],
        on_refused: Callable[[str], None],
        demand: Demand | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.demand = demand
        self.tried = tried
        self.on_replica = on_replica
        self.on_refused = on_refused
        self.live = True
        self.timer: Timer | None = None

    def end(self) -> None:
        """No callback will be called any more."""
        self.live = False
        if self.timer is not None:
            self.timer.cancel()


class Admission:
    """Counts what is in flight per replica and holds what cannot be sent yet.

    Attributes:
        loads: requests in flight, by replica id.
        outstanding: tokens in flight, by replica id: prompts not yet read and answers not yet written, as estimated.
        prefixes: which replica was lately sent what.
        suspects: replicas that gave no answer of late; they are passed over while there are others.

    Args:
        rng: breaks ties between replicas.
        later: ``loop.call_later``.
        clock: monotonic seconds.
        wake: called with an endpoint's name when its room fills from empty.
        deadline: seconds a request may wait (:data:`DEADLINE`).
        room: requests that may wait per endpoint (:data:`ROOM`).
        policy: chooses among the replicas with room.
        shared: requests in flight over all workers, where there are several; ``loads`` has this one's.
    """

    def __init__(
        self,
        *,
        rng: Random,
        later: Callable[[float, Callable[[], None]], Timer],
        clock: Callable[[], float] = time.perf_counter,
        wake: Callable[[str], None],
        deadline: float = DEADLINE,
        room: int = ROOM,
        policy: Policy = affine,
        shared: Column | None = None,
    ) -> None:
        self.loads: dict[str, int] = {}
        self.outstanding: dict[str, int] = {}
        self.prefixes = PrefixIndex()
        self.suspects = Suspects()
        self._shared = shared
        self._looking = False
        self._known = Loads(self.loads if shared is None else shared, self.outstanding, self.prefixes)
        self._policy = policy
        self._rng = rng
        self._later = later
        self._clock = clock
        self._wake = wake
        self._deadline = deadline
        self._places = room
        self._rooms: dict[str, Room[Ticket]] = {}
        self._table: Table = EMPTY

    def take(self, endpoint: Endpoint, tried: Collection[str] = (), demand: Demand | None = None) -> Replica | None:
        """A replica with room, its load counted up, or None. Nobody overtakes who waits, save a request retried."""
        room = self._rooms.get(endpoint.name)
        if room is not None and not tried and room.first is not None:
            return None
        return self._grant(endpoint, tried, demand)

    def progress(self, replica: Replica, demand: Demand) -> None:
        """More of an answer has come: the prompt is read, and a token is written; the least that can have been."""
        if demand.unread:
            self.outstanding[replica.id] -= demand.unread
            demand.unread = 0
        if demand.unwritten:
            self.outstanding[replica.id] -= 1
            demand.unwritten -= 1

    def release(self, replica: Replica, demand: Demand | None = None) -> None:
        """A request has left a replica; the first who waits gets its place. ``demand`` as it was taken with."""
        if self._shared is not None:
            self._shared.add(replica.id, -1)
        load = self.loads[replica.id] - 1
        if load:
            self.loads[replica.id] = load
            self.outstanding[replica.id] -= _UNREAD.unread if demand is None else demand.unread + demand.unwritten
        else:
            del self.loads[replica.id], self.outstanding[replica.id]
        if demand is not None:
            demand.unread = demand.unwritten = 0
        if replica.endpoint in self._rooms:
            self._admit(replica.endpoint)

    def hold(
        self,
        endpoint: Endpoint,
        tried: Collection[str],
        on_replica: Callable[[Replica], None],
        on_refused: Callable[[str], None],
        demand: Demand | None = None,
        *,
        key: str = "",
    ) -> Ticket | str:
        """Wait for a replica, or hear at once why that is no use.

        Args:
            endpoint: it is for.
            tried: ids of replicas that failed it.
            on_replica: called with the replica it may be sent to; its load is counted up.
            on_refused: called with the reason why it will not be sent.
            demand: of the request.
            key: who asks: keys take turns.
        """
        if not endpoint.replicas and endpoint.state in _HOPELESS:
            return _hopeless(endpoint)
        room = self._rooms.get(endpoint.name)
        wakes = room is None
        if room is None:
            room = self._rooms[endpoint.name] = Room(self._places)
        ticket = Ticket(endpoint.name, tried, on_replica, on_refused, demand)
        out = room.enter(ticket, key, 1 if demand is None else demand.tokens, returned=bool(tried))
        full = f"Endpoint {endpoint.name!r} is full: {len(room)} requests wait already"
        if out is ticket:
            return full
        ticket.timer = self._later(self._deadline, lambda: self._expire(ticket))
        if out is not None:
            out.end()
            out.on_refused(full)
        if wakes:
            if self._shared is not None and not self._looking:
                self._looking = True
                self._later(_LOOK, self._look)
            self._wake(endpoint.name)
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Give a place up: the client is gone."""
        if ticket.live:
            self._leave(ticket)

    def waiting(self) -> dict[str, int]:
        """How many wait, by endpoint; endpoints where nobody does are left out."""
        return {name: len(room) for name, room in self._rooms.items()}

    def swap(self, table: Table) -> None:
        """Use another table: who waits for a replica that it brings goes on, who waits in vain is told."""
        self._table = table
        self.suspects.retain(table.replicas)
        for name in list(self._rooms):
            room = self._rooms.get(name)
            if room is None:
                continue  # a callback's consequences have emptied it
            endpoint = table.endpoints.get(name)
            if endpoint is None or (not endpoint.replicas and endpoint.state in _HOPELESS):
                reason = f"Endpoint {name!r} was removed" if endpoint is None else _hopeless(endpoint)
                for ticket in room.everybody():
                    self._refuse(ticket, reason)
            else:
                self._admit(name)

    def _grant(self, endpoint: Endpoint, tried: Collection[str], demand: Demand | None) -> Replica | None:
        asked = demand or _UNREAD
        if self.suspects:
            tried = self._passed_over(endpoint, tried)
        among = candidates(endpoint, self._known, share(asked, self._rng), tried=tried)
        replica = self._policy(asked, among, self._known, endpoint.slack, self._rng)
        if replica is None:
            return None
        self.loads[replica.id] = self.loads.get(replica.id, 0) + 1
        if self._shared is not None:
            self._shared.add(replica.id, 1)
        if demand is not None:
            self._count(replica.id, demand)
        self.outstanding[replica.id] = self.outstanding.get(replica.id, 0) + asked.unread + asked.unwritten
        return replica

    def _passed_over(self, endpoint: Endpoint, tried: Collection[str]) -> Collection[str]:
        """What was tried, and the suspects too where anybody else is left: a suspect is still better than nobody."""
        out = self.suspects.skipped(self._clock()).union(tried)
        return tried if all(replica.id in out for replica in endpoint.replicas) else out

    def _count(self, replica: str, demand: Demand) -> None:
        """What a request adds to a replica's tokens: of its prompt, what that replica was not sent before."""
        demand.unread, demand.unwritten = demand.input_tokens, demand.output_tokens
        if demand.blocks:
            known = prompt.tokens(self.prefixes.depth(demand.blocks, replica))
            demand.unread = max(1, demand.input_tokens - known)
            self.prefixes.remember(demand.blocks, replica)

    def _look(self) -> None:
        """Admit who can be, and look again while somebody waits: another worker's request may have ended."""
        for name in list(self._rooms):
            self._admit(name)
        self._looking = bool(self._rooms)
        if self._looking:
            self._later(_LOOK, self._look)

    def _admit(self, name: str) -> None:
        endpoint = self._table.endpoints.get(name)
        if endpoint is None or name not in self._rooms:
            return
        for ticket in self._rooms[name].returned:
            if ticket.live:  # an earlier one's callback may have closed this one's client
                self._let_in(ticket, endpoint)
        while (room := self._rooms.get(name)) is not None and (first := room.first) is not None:
            if not self._let_in(first, endpoint):
                return

    def _let_in(self, ticket: Ticket, endpoint: Endpoint) -> bool:
        replica = self._grant(endpoint, ticket.tried, ticket.demand)
        if replica is None:
            return False
        self._leave(ticket, served=True)
        ticket.on_replica(replica)
        return True

    def _expire(self, ticket: Ticket) -> None:
        if ticket.live:
            endpoint = self._table.endpoints.get(ticket.endpoint)
            reason = f": {endpoint.reason}" if endpoint is not None and endpoint.reason else ""
            state = endpoint.state if endpoint is not None else "gone"
            late = f"No replica of {ticket.endpoint!r} had room within {self._deadline:g} s"
            self._refuse(ticket, f"{late}; the endpoint is {state}{reason}")

    def _refuse(self, ticket: Ticket, reason: str) -> None:
        if ticket.live:
            self._leave(ticket)
            ticket.on_refused(reason)

    def _leave(self, ticket: Ticket, *, served: bool = False) -> None:
        ticket.end()
        room = self._rooms[ticket.endpoint]
        room.leave(ticket, served=served)
        if not room:
            del self._rooms[ticket.endpoint]


def _hopeless(endpoint: Endpoint) -> str:
    reason = f": {endpoint.reason}" if endpoint.reason else ""
    return f"Endpoint {endpoint.name!r} is {endpoint.state}{reason}"
