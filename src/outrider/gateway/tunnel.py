"""WebSockets (RFC 6455): the upgrade is authenticated and routed like a request, then bytes go both ways unread.

A tunnel takes the place of its client's connection and of one to a replica, and counts against that replica's
capacity for as long as it lives. It serves the realtime API, and whatever a custom server speaks under ``/e/NAME/``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from outrider.errors import AccessDenied
from outrider.gateway import auth, local, responses
from outrider.gateway.admission import Ticket
from outrider.gateway.call import Call
from outrider.gateway.demand import Demand
from outrider.gateway.limits import Claim
from outrider.gateway.outgoing import Outgoing, request_id
from outrider.gateway.responses import Response
from outrider.gateway.routes import Place, Route
from outrider.gateway.table import Endpoint, Key, Replica
from outrider.gateway.upstream import CONNECT_TIMEOUT
from outrider.metrics.record import Outcome, RequestRecord

if TYPE_CHECKING:
    from outrider.gateway.gateway import Gateway

_HEAD_LIMIT = 64 * 1024
_AHEAD_LIMIT = 64 * 1024


def wants(call: Call) -> bool:
    """Whether a request asks for a WebSocket."""
    upgrade = call.header(b"upgrade")
    return upgrade is not None and upgrade.lower() == b"websocket" and call.method == "GET" and call.http_1_1


class Tunnel(asyncio.Protocol):
    """The client's side. It takes over the client's transport, and gives back what it holds when either side ends.

    Args:
        gateway: for which the tunnel is dug.
        call: the upgrade request.
        route: where it leads.
        ahead: bytes that the client sent behind its request.
    """

    def __init__(self, gateway: Gateway, call: Call, route: Route, ahead: bytes) -> None:
        self._gateway = gateway
        self._call = call
        self._route = route
        self._ahead = ahead
        self._id = request_id(call, gateway.new_id)
        self._transport: asyncio.Transport | None = None
        self._far: _FarSide | None = None
        self._endpoint: Endpoint | None = None
        self._key: Key | None = None
        self._claim: Claim | None = None
        self._demand = Demand()
        self._replica: Replica | None = None
        self._ticket: Ticket | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._done = False
        self._held_at = 0.0
        self._waited = 0.0

    def start(self, transport: asyncio.Transport) -> None:
        """Route the call; the client's bytes come here from now on."""
        self._transport = transport
        transport.set_protocol(self)
        self._gateway.clients.add(self)
        try:
            self._admit()
        except AccessDenied as error:
            self._refuse(responses.from_error(error))

    # asyncio

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the client is gone."""
        self._gateway.leave(self)
        talked = exc is None and self._far is not None and self._far.status != 0
        self.end(Outcome.OK if talked else Outcome.CLIENT_GONE)

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of the client."""
        if self._far is not None:
            self._far.write(data)
            return
        self._ahead += data
        if len(self._ahead) > _AHEAD_LIMIT:
            self.flow(on=False)

    def pause_writing(self) -> None:
        """asyncio: the client reads too slowly."""
        if self._far is not None:
            self._far.pause()

    def resume_writing(self) -> None:
        """asyncio: the client has caught up."""
        if self._far is not None:
            self._far.resume()

    # the gateway

    def tick(self, now: float) -> None:
        """A tunnel may be silent: WebSockets have pings of their own."""

    def drain(self) -> None:
        """The gateway stops: the tunnel may go on until its grace is over."""

    def leave_if_idle(self) -> None:
        """A tunnel is never idle."""

    def abort(self) -> None:
        """Cut both sides."""
        if self._transport is not None:
            self._transport.abort()

    # the far side

    def write(self, data: bytes) -> None:
        """Send bytes to the client."""
        if self._transport is not None:
            self._transport.write(data)

    def flow(self, *, on: bool) -> None:
        """Read from the client, or stop because the replica reads too slowly."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            (transport.resume_reading if on else transport.pause_reading)()

    def opened(self, head: bytes) -> None:
        """The replica has answered: its head goes on, with the gateway's own lines in it."""
        assert self._endpoint is not None and self._replica is not None
        line, _, rest = head.partition(b"\r\n")
        revision = self._endpoint.revision(self._replica.revision)
        label = f"x-outrider-revision: {revision.label}\r\n" if revision is not None else ""
        own = f"x-request-id: {self._id}\r\n{label}".encode("latin-1")
        self.write(b"%b\r\n%b%b" % (line, own, rest))

    def end(self, outcome: Outcome, status: int = 0) -> None:
        """Give everything back, exactly once, and close both sides when what was written has gone out."""
        if self._done:
            return
        self._done = True
        far, self._far = self._far, None
        if far is not None:
            status = status or far.status
            far.close()
        if self._ticket is not None:
            self._gateway.admission.cancel(self._ticket)
        if self._dialling is not None:
            self._dialling.cancel()
        if self._transport is not None:
            self._transport.close()
        if self._endpoint is not None:
            self._gateway.numbers.finish(self._record(self._endpoint, outcome, status))
            if self._claim is not None:
                self._gateway.limits.settle(self._claim, None, None, answered=status == 101)
        if self._replica is not None:
            self._gateway.admission.release(self._replica, self._demand)

    def refused(self, message: str) -> None:
        """The replica did not take the upgrade."""
        self._refuse(responses.error(502, message, code="replica_failed"), Outcome.UPSTREAM_GONE)

    # inside

    def _admit(self) -> None:
        gateway, call, route = self._gateway, self._call, self._route
        if not route.name:
            message = "The query names no model: connect to /v1/realtime?model=NAME"
            self._refuse(responses.error(400, message, code="invalid_request", param="model"))
            return
        presented = auth.secret(call.header(b"authorization"), call.header(b"x-api-key"))
        endpoint = gateway.table.resolve(route.name)
        custom = route.place is Place.CUSTOM
        if endpoint is None or (custom and endpoint.task != "custom"):
            visible = auth.visible(gateway.table, presented, gateway.now())
            self._refuse(local.unknown_model(gateway.table, route.name, visible, custom=custom))
            return
        self._endpoint = endpoint
        self._key = auth.check(gateway.table, endpoint, presented, gateway.now())
        self._claim = gateway.limits.claim(self._key, self._demand.tokens, gateway.clock())
        replica = gateway.admission.take(endpoint, (), self._demand)
        if replica is not None:
            self._granted(replica)
            return
        self._held_at = gateway.clock()
        key = self._key.id if self._key else ""
        held = gateway.admission.hold(endpoint, (), self._granted, self._unavailable, self._demand, key=key)
        if isinstance(held, str):
            self._unavailable(held)
        else:
            self._ticket = held

    def _granted(self, replica: Replica) -> None:
        self._ticket = None
        self._waited = self._gateway.clock() - self._held_at if self._held_at else 0.0
        self._replica = replica
        self._dialling = self._gateway.loop.create_task(self._dial(replica))

    async def _dial(self, replica: Replica) -> None:
        pool = self._gateway.pool(replica)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _, far = await self._gateway.loop.create_connection(lambda: _FarSide(self), *pool.address)
        except OSError as error:
            self._gateway.admission.suspects.failed(replica.id, self._gateway.clock())
            self._dialling = None
            self.refused(f"The replica cannot be reached: {error.strerror or type(error).__name__}")
            return
        self._dialling = None
        self._gateway.admission.suspects.reached(replica.id)
        self._far = far
        outgoing = Outgoing(self._call, self._route.target, b"", self._id, adds_usage=False)
        upgrade = b"connection: Upgrade\r\nupgrade: websocket\r\n\r\n"
        far.write(outgoing.encode(pool)[:-2] + upgrade + self._ahead)
        self._ahead = b""
        self.flow(on=True)

    def _unavailable(self, reason: str) -> None:
        self._ticket = None
        self._refuse(responses.error(503, reason, code="no_ready_replica"))

    def _refuse(self, response: Response, outcome: Outcome = Outcome.REFUSED) -> None:
        response = response._replace(headers=(*response.headers, ("x-request-id", self._id)))
        self.write(response.encode(keep_alive=False))
        self.end(outcome, response.status)

    def _record(self, endpoint: Endpoint, outcome: Outcome, status: int) -> RequestRecord:
        lasted = self._gateway.clock() - self._call.completed
        return RequestRecord(
            id=self._id,
            at=self._gateway.now() - round(lasted * 1000),
            endpoint=endpoint.name,
            revision=self._replica.revision if self._replica else None,
            replica=self._replica.id if self._replica else None,
            key=self._key.id if self._key else None,
            path="" if self._route.place is Place.CUSTOM else "/v1/realtime",
            status=status,
            stream=False,
            prompt_tokens=None,
            completion_tokens=None,
            waited=self._waited,
            ttft=None,
            itl=None,
            e2e=lasted,
            overhead=0.0,
            retries=0,
            outcome=outcome,
            slices=None,
        )


class _FarSide(asyncio.Protocol):
    """The replica's side: its head is read for its status, all else passes."""

    def __init__(self, near: Tunnel) -> None:
        self.status = 0
        self._near = near
        self._head = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio: connected."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio: the replica has closed."""
        if self.status:
            ended_well = exc is None and self.status < 500
            self._near.end(Outcome.OK if ended_well else Outcome.UPSTREAM_GONE, self.status)
        else:
            self._near.refused("The replica closed the connection before it answered")

    def data_received(self, data: bytes) -> None:
        """asyncio: bytes of the replica."""
        if self.status:
            self._near.write(data)
            return
        self._head += data
        if b"\r\n\r\n" in self._head:
            fields = self._head.split(None, 2)
            if fields[0].startswith(b"HTTP/1.") and fields[1].isdigit():
                self.status = int(fields[1])
                self._near.opened(self._head)
                self._head = b""
                return
        elif len(self._head) <= _HEAD_LIMIT:
            return
        self._near.refused("The replica sent something that is not HTTP")

    def pause_writing(self) -> None:
        """asyncio: the replica reads too slowly."""
        self._near.flow(on=False)

    def resume_writing(self) -> None:
        """asyncio: the replica has caught up."""
        self._near.flow(on=True)

    def write(self, data: bytes) -> None:
        """Send bytes to the replica."""
        if self._transport is not None:
            self._transport.write(data)

    def pause(self) -> None:
        """Read no more until :meth:`resume`."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Close once everything written has gone out."""
        if self._transport is not None:
            self._transport.close()
