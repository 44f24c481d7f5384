"""How many requests a replica may hold, and where the others wait: bounded, in order, with a deadline."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from random import Random
from typing import Protocol

from outrider.gateway.balancer import choose
from outrider.gateway.table import EMPTY, Endpoint, Replica, Table

DEADLINE = 30.0
"""Seconds a request is held: longer than a small replica takes to come up, shorter than clients' usual 60 s timeout."""

ROOM = 1024
"""Requests held per endpoint: each holds its body, so the bound is one on memory."""

_HOPELESS = frozenset({"stopped", "failed"})


class Timer(Protocol):
    """What :meth:`asyncio.loop.call_later` returns."""

    def cancel(self) -> None:
        """Never call back."""
        ...


class Ticket:
    """A place in the waiting room. Exactly one of its two callbacks is called, unless it is cancelled."""

    __slots__ = ("endpoint", "live", "on_refused", "on_replica", "timer", "tried")

    def __init__(
        self,
        endpoint: str,
        tried: Collection[str],
        on_replica: Callable[[Replica], None],
        on_refused: Callable[[str], None],
    ) -> None:
        self.endpoint = endpoint
        self.tried = tried
        self.on_replica = on_replica
        self.on_refused = on_refused
        self.live = True
        self.timer: Timer | None = None


class Admission:
    """Counts what is in flight per replica and holds what cannot be sent yet.

    Args:
        rng: breaks ties between replicas.
        later: ``loop.call_later``.
        wake: called with an endpoint's name when its room fills from empty.
        deadline: seconds a request may wait (:data:`DEADLINE`).
        room: requests that may wait per endpoint (:data:`ROOM`).
    """

    def __init__(
        self,
        *,
        rng: Random,
        later: Callable[[float, Callable[[], None]], Timer],
        wake: Callable[[str], None],
        deadline: float = DEADLINE,
        room: int = ROOM,
    ) -> None:
        self.loads: dict[str, int] = {}
        self._rng = rng
        self._later = later
        self._wake = wake
        self._deadline = deadline
        self._room = room
        self._rooms: dict[str, deque[Ticket]] = {}
        self._table: Table = EMPTY

    def take(self, endpoint: Endpoint, tried: Collection[str] = ()) -> Replica | None:
        """A replica with room, its load counted up, or None. Nobody overtakes who waits, save a request retried."""
        room = self._rooms.get(endpoint.name)
        if room is not None and not tried and any(not ticket.tried for ticket in room):
            return None  # who waits for a replica other than those it tried blocks nobody
        return self._grant(endpoint, tried)

    def release(self, replica: Replica) -> None:
        """A request has left a replica; the first who waits gets its place."""
        load = self.loads[replica.id] - 1
        if load:
            self.loads[replica.id] = load
        else:
            del self.loads[replica.id]
        if replica.endpoint in self._rooms:
            self._admit(replica.endpoint)

    def hold(
        self,
        endpoint: Endpoint,
        tried: Collection[str],
        on_replica: Callable[[Replica], None],
        on_refused: Callable[[str], None],
    ) -> Ticket | str:
        """Wait for a replica, or hear at once why that is no use."""
        if not endpoint.replicas and endpoint.state in _HOPELESS:
            return _hopeless(endpoint)
        room = self._rooms.get(endpoint.name)
        if room is not None and len(room) >= self._room:
            return f"Endpoint {endpoint.name!r} is full: {len(room)} requests wait already"
        ticket = Ticket(endpoint.name, tried, on_replica, on_refused)
        ticket.timer = self._later(self._deadline, lambda: self._expire(ticket))
        if room is None:
            self._rooms[endpoint.name] = deque((ticket,))
            self._wake(endpoint.name)
        else:
            room.append(ticket)
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
        for name in list(self._rooms):
            endpoint = table.endpoints.get(name)
            if endpoint is None or (not endpoint.replicas and endpoint.state in _HOPELESS):
                reason = f"Endpoint {name!r} was removed" if endpoint is None else _hopeless(endpoint)
                for ticket in list(self._rooms[name]):
                    self._refuse(ticket, reason)
            else:
                self._admit(name)

    def _grant(self, endpoint: Endpoint, tried: Collection[str]) -> Replica | None:
        replica = choose(endpoint, self.loads, self._rng, tried=tried)
        if replica is not None:
            self.loads[replica.id] = self.loads.get(replica.id, 0) + 1
        return replica

    def _admit(self, name: str) -> None:
        endpoint = self._table.endpoints.get(name)
        if endpoint is None:
            return
        for ticket in list(self._rooms.get(name, ())):
            if not ticket.live:
                continue  # an earlier ticket's callback closed this one's client
            replica = self._grant(endpoint, ticket.tried)
            if replica is not None:
                self._leave(ticket)
                ticket.on_replica(replica)
            elif not ticket.tried:
                return

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

    def _leave(self, ticket: Ticket) -> None:
        ticket.live = False
        if ticket.timer is not None:
            ticket.timer.cancel()
        room = self._rooms[ticket.endpoint]
        room.remove(ticket)
        if not room:
            del self._rooms[ticket.endpoint]


def _hopeless(endpoint: Endpoint) -> str:
    reason = f": {endpoint.reason}" if endpoint.reason else ""
    return f"Endpoint {endpoint.name!r} is {endpoint.state}{reason}"
