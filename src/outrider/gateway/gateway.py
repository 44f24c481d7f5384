"""The gateway of one process: its parts, and how they start, change and stop."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from outrider.gateway import admission, halfopen, listening, table
from outrider.gateway.admission import Admission, Timer
from outrider.gateway.counts import Column
from outrider.gateway.limits import Meters
from outrider.gateway.numbers import Numbers
from outrider.gateway.retries import RetryBudget
from outrider.gateway.server import Client
from outrider.gateway.siblings import Siblings
from outrider.gateway.table import EMPTY, InvalidTable, Replica, Table
from outrider.gateway.timeouts import Timeouts
from outrider.gateway.tunnel import Tunnel
from outrider.gateway.upstream import Pool
from outrider.metrics import exposition, schema

_log = logging.getLogger(__name__)

BODY_LIMIT = 32 * 1024 * 1024
"""Bytes of a request body: a few images in base64 and a long context fit, a disk image does not."""

GRACE = 30.0
"""Seconds that requests in flight get when the gateway stops."""

LAST_CALL = 1.0
"""Seconds that a stopping process leaves quiet connections open: the next answer on one says that it closes, so a busy
client never has a request on its way to a connection that was just closed."""

_SWEEP = 1.0
_LAST_ACCEPT = 0.1
"""Seconds that a stopping process goes on accepting: longer than a handshake takes that had begun before."""
_BACKLOG = 2048
_SAME = frozenset({schema.CONTROLLER_CONNECTED.name, schema.TABLE_VERSION.name})
"""Gauges that say the same of every worker: the worst of them is the gateway's."""


class Gateway:
    """Everything that requests share.

    Args:
        table_file: where the last good table is kept, or None.
        wake: called with the name of an endpoint that somebody waits for.
        clock: monotonic seconds.
        wall: unix seconds.
        rng: draws between replicas and makes request ids.
        body_limit: bytes of a request body (:data:`BODY_LIMIT`).
        deadline: seconds a request may wait for a replica.
        timeouts: of requests.
        later: ``loop.call_later``.
        shared: counts of requests in flight that several workers share, or None for one worker.
    """

    def __init__(
        self,
        *,
        table_file: Path | None = None,
        wake: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.perf_counter,
        wall: Callable[[], float] = time.time,
        rng: Random | None = None,
        body_limit: int = BODY_LIMIT,
        deadline: float = admission.DEADLINE,
        timeouts: Timeouts | None = None,
        later: Callable[[float, Callable[[], None]], Timer] | None = None,
        shared: Column | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.later = later or self.loop.call_later
        self.timeouts = timeouts or Timeouts()
        self.clock = clock
        self.body_limit = body_limit
        self.numbers = Numbers()
        self.limits = Meters()
        self.clients: set[Client | Tunnel] = set()
        self.table: Table = EMPTY
        self.connected = False
        self.siblings: Siblings | None = None
        self.admission = Admission(
            rng=rng or Random(),
            later=self.later,
            clock=clock,
            wake=lambda name: self.wake(name),
            deadline=deadline,
            shared=shared,
        )
        self.wake = wake
        self._wall = wall
        self._ids = rng or Random()
        self._table_file = table_file
        self._pools: dict[str, Pool] = {}
        self._budgets: dict[str, RetryBudget] = {}
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._stopping = False
        self._emptied = asyncio.Event()

    def now(self) -> int:
        """UTC ms."""
        return int(self._wall() * 1000)

    def new_id(self) -> str:
        """A request id."""
        return f"req-{self._ids.getrandbits(96):024x}"

    def pool(self, replica: Replica) -> Pool:
        """Connections to a replica."""
        pool = self._pools.get(replica.id)
        if pool is None:
            pool = Pool(replica, self.clock)
            if self.table.replicas.get(replica.id) == replica:
                self._pools[replica.id] = pool
            else:
                pool.close()  # granted before the table changed: its connection is not kept
        return pool

    def budget(self, endpoint: str) -> RetryBudget:
        """How many retries an endpoint has left."""
        budget = self._budgets.get(endpoint)
        if budget is None:
            budget = self._budgets[endpoint] = RetryBudget()
        return budget

    async def start(
        self,
        host: str,
        port: int,
        *,
        beside: bool = False,
        replaces: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> int:
        """Serve from the saved table, and say on which port (``port`` 0 takes a free one).

        Args:
            host: to listen on.
            port: to listen on.
            beside: whether other workers of this gateway listen there, too.
            replaces: whether one other gateway does, which this one takes over from: it gets no more connections.
            tls: what clients speak TLS with; None for plain HTTP.

        Raises:
            PortTaken, PermissionRefused
        """
        self._load()
        with listening.refusals(host, port):
            if port and not beside and not replaces:
                listening.probe(host, port)
            self._server = await self.loop.create_server(
                lambda: Client(self), host, port, backlog=_BACKLOG, reuse_port=True, ssl=tls
            )
            if replaces:
                listening.steer(self._server.sockets[0])
        for one in self._server.sockets:
            halfopen.watch(one)
        self.sweep()
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, grace: float = GRACE, last_call: float = 0.0) -> None:
        """Take no more connections, finish what is in flight within ``grace`` seconds, and close the rest.

        ``last_call``: seconds until connections on which nothing is in flight are closed (:data:`LAST_CALL`).
        """
        self._stopping = True
        if last_call:
            await asyncio.sleep(_LAST_ACCEPT)  # take in who is connecting: closing the socket would reset them
        if self._server is not None:
            self._server.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for client in list(self.clients):
            client.drain()
        if self.clients and last_call:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), last_call)
        for client in list(self.clients):
            client.leave_if_idle()
        if self.clients:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), grace)
        for client in list(self.clients):
            client.abort()
        for pool in self._pools.values():
            pool.close()

    def use(self, data: Any, *, save: bool = True) -> bool:
        """Swap the table for one just received; False, and the old one stays, where it is not valid."""
        try:
            new = table.parse(data)
        except InvalidTable as error:
            _log.error("table refused, the one before stays: %s", error)
            return False
        self.table = new
        for pool in [pool for pool in self._pools.values() if new.replicas.get(pool.replica.id) != pool.replica]:
            self._pools.pop(pool.replica.id).close()
        self.numbers.retire(new.replicas.keys() | self.admission.loads.keys())
        self._budgets = {name: one for name, one in self._budgets.items() if name in new.endpoints}
        self.limits.retain(key.id for key in new.keys.values())
        self.admission.swap(new)
        if save and self._table_file is not None:
            try:
                table.save(new, self._table_file)
            except OSError as error:
                _log.error("table not saved to %s: %s", self._table_file, error.strerror)
        return True

    def leave(self, client: Client | Tunnel) -> None:
        """A client connection has closed."""
        self.clients.discard(client)
        if self._stopping and not self.clients:
            self._emptied.set()

    def health(self) -> dict[str, object]:
        """What ``/healthz`` says. Numbers only: it is open to all, and names are not everybody's business."""
        return {
            "status": "stopping" if self._stopping else "ok",
            "endpoints": len(self.table.endpoints),
            "replicas": len(self.table.replicas),
            "table_version": self.table.version,
            "controller_connected": self.connected,
        }

    async def all_numbers(self) -> str:
        """What ``/metrics`` says: this process's numbers, and those of the workers beside it."""
        others = await self.siblings.ask() if self.siblings is not None else []
        own = self.exposition()
        return exposition.merge([own, *others], _SAME) if others else own

    def exposition(self) -> str:
        """This process's numbers."""
        loads = self.admission.loads
        return self.numbers.expose(
            in_flight={
                (replica.endpoint, replica.id): loads.get(replica.id, 0) for replica in self.table.replicas.values()
            },
            waiting=self.admission.waiting(),
            connections=len(self.clients),
            connected=self.connected,
            version=self.table.version,
        )

    def _load(self) -> None:
        if self._table_file is None:
            return
        try:
            saved = table.load(self._table_file)
        except (InvalidTable, OSError) as error:
            _log.error("saved table not used: %s", error)
            return
        if saved is not EMPTY:
            self.use(saved.raw, save=False)

    def sweep(self) -> None:
        """End what takes too long and close what is silent: one timer for all connections, not one for each."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        now = self.clock()
        for client in list(self.clients):
            client.tick(now)
        for pool in self._pools.values():
            pool.prune()
        self._sweeper = self.loop.call_later(_SWEEP, self.sweep)
