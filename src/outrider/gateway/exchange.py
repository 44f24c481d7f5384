"""One request on its way: key, endpoint, replica, answer. Callbacks only; a task is made where a connection is.

The order of what may happen is the contract: before the answer's first byte a failed replica is replaced by another,
after it never; the client's leaving ends everything at once; exactly one record is made, whatever happened.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from outrider.errors import AccessDenied
from outrider.gateway import auth, demand, local, request, responses, retries, routes, timeouts
from outrider.gateway.admission import Ticket, Timer
from outrider.gateway.answer import Answer
from outrider.gateway.call import Call
from outrider.gateway.demand import Demand
from outrider.gateway.heartbeat import Heartbeat, LateAnswer
from outrider.gateway.limits import Claim
from outrider.gateway.outgoing import Outgoing, request_id
from outrider.gateway.request import Facts, InvalidBody
from outrider.gateway.responses import Response
from outrider.gateway.routes import Place, Route
from outrider.gateway.table import Endpoint, Key, Replica
from outrider.gateway.upstream import CONNECT_TIMEOUT, Connection
from outrider.metrics.record import Outcome, RequestRecord, itl

if TYPE_CHECKING:
    from outrider.gateway.gateway import Gateway
    from outrider.gateway.server import Client

_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


class Exchange:
    """One request and its answer."""

    def __init__(self, gateway: Gateway, client: Client, call: Call) -> None:
        self._gateway = gateway
        self._client = client
        self._call = call
        self._id = request_id(call, gateway.new_id)
        self._route: Route | None = None
        self._endpoint: Endpoint | None = None
        self._key: Key | None = None
        self._facts: Facts | None = None
        self._demand = Demand()
        self._claim: Claim | None = None
        self._outgoing: Outgoing | None = None
        self._replica: Replica | None = None
        self._tried: set[str] = set()
        self._failures = 0
        self._ticket: Ticket | None = None
        self._dialling: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._answer: Answer | None = None
        self._heartbeat: Heartbeat | None = None
        self._limit: Timer | None = None
        self._moved_at = 0.0
        self._held_at = 0.0
        self._waited = 0.0
        self._sent_at = 0.0
        self._written_at = 0.0
        self._done = False

    def start(self) -> None:
        """Route the call; answers that the gateway gives itself are written before this returns."""
        call = self._call
        route = self._route = routes.match(call.target)
        if route is None:
            self._reply(local.unknown_path(call.target))
        elif route.methods and call.method == "OPTIONS":
            self._reply(Response(HTTPStatus.NO_CONTENT, b"", headers=(("allow", local.allowed(route)),)))
        elif route.methods and call.method not in route.methods:
            self._reply(local.wrong_method(call.method, route))
        elif route.place in (Place.INFERENCE, Place.CUSTOM):
            try:
                self._admit(route)
            except (AccessDenied, InvalidBody) as error:
                self._reply(responses.from_error(error))
        elif route.place is Place.METRICS:
            self._dialling = self._gateway.loop.create_task(self._tell_numbers())
        else:
            self._reply(local.answer(self._gateway, route, self._presented()))

    def client_gone(self) -> None:
        """The client has closed: whatever is under way for it is cancelled."""
        self._finish(Outcome.CLIENT_GONE, 0 if self._answer is None else self._answer.status)

    def pause(self) -> None:
        """The client reads too slowly."""
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """The client has caught up."""
        if self._connection is not None:
            self._connection.resume()

    def tick(self, now: float) -> None:
        """Time has passed: end what takes too long at a replica. Waiting and connecting have bounds of their own."""
        if self._connection is not None:
            silent = now - (self._moved_at or self._sent_at)
            age, answering = now - self._call.completed, self._answer is not None
            problem = self._gateway.timeouts.overdue(age=age, silent=silent, answering=answering)
            if problem is not None:
                self._overdue(problem)

    # to the replica

    def _presented(self) -> bytes | None:
        return auth.secret(self._call.header(b"authorization"), self._call.header(b"x-api-key"))

    def _admit(self, route: Route) -> None:
        call, table = self._call, self._gateway.table
        body: bytes = call.body
        data: dict[str, Any] = {}
        name = route.name
        if route.place is Place.INFERENCE:
            self._facts, data = request.parse(body)
            name = self._facts.model
        endpoint = table.endpoints.get(name) if route.place is Place.CUSTOM else table.resolve(name)
        now = self._gateway.now()
        if endpoint is None or (route.place is Place.CUSTOM and endpoint.task != "custom"):
            visible = auth.visible(table, self._presented(), now)
            self._reply(local.unknown_model(table, name, visible, custom=route.place is Place.CUSTOM))
            return
        self._endpoint = endpoint
        self._key = auth.check(table, endpoint, self._presented(), now)
        facts = self._facts
        if facts is not None:
            affinity = demand.affinity_key(call.header(demand.HEADER), data)
            self._demand = demand.of(facts.prompt, facts.max_tokens, affinity)
        clock = self._gateway.clock()
        self._claim = self._gateway.limits.claim(self._key, self._demand.tokens, clock)
        self._gateway.budget(endpoint.name).request(clock)
        limit = timeouts.wanted(call.header(timeouts.HEADER))
        if limit is not None:
            self._limit = self._gateway.later(limit, lambda: self._over_limit(limit))
        asks = (
            facts is not None and facts.stream and not facts.include_usage and route.target in routes.USAGE_ON_REQUEST
        )
        if asks and facts is not None:
            body = request.with_usage(body, facts, data)
        self._outgoing = Outgoing(call, route.target, body, self._id, adds_usage=asks)
        self._seek()

    def _seek(self) -> None:
        endpoint = self._gateway.table.endpoints.get(self._endpoint.name) if self._endpoint else None
        if endpoint is None:
            self._unavailable("The endpoint was removed")
            return
        replica = self._gateway.admission.take(endpoint, self._tried, self._demand)
        if replica is not None:
            self._send(replica)
            return
        self._held_at = self._gateway.clock()
        if self._heartbeat is None and self._facts is not None and self._facts.stream:
            self._heartbeat = Heartbeat(self._client, self._call, self._gateway.later, self._early_headers)
        held = self._gateway.admission.hold(
            endpoint, self._tried, self._granted, self._unavailable, self._demand, key=self._key.id if self._key else ""
        )
        if isinstance(held, str):
            self._unavailable(held)
        else:
            self._ticket = held

    def _granted(self, replica: Replica) -> None:
        self._ticket = None
        self._waited += self._gateway.clock() - self._held_at
        self._held_at = 0.0
        self._send(replica)

    def _unavailable(self, reason: str) -> None:
        self._ticket = None
        if self._held_at:
            self._waited += self._gateway.clock() - self._held_at
        self._reply(responses.error(503, reason, code="no_ready_replica"))

    def _send(self, replica: Replica) -> None:
        self._replica = replica
        connection = self._gateway.pool(replica).idle()
        if connection is not None:
            self._write(connection)
        else:
            self._dialling = self._gateway.loop.create_task(self._dial(replica))

    async def _tell_numbers(self) -> None:
        response = await local.numbers(self._gateway, self._call, self._presented(), self._client.peer)
        self._dialling = None
        self._reply(response)

    async def _dial(self, replica: Replica) -> None:
        suspects = self._gateway.admission.suspects
        if suspects:
            suspects.trying(replica.id, self._gateway.clock(), CONNECT_TIMEOUT)
        try:
            connection = await self._gateway.pool(replica).connect()
        except OSError as error:
            self._dialling = None
            self._failed(f"cannot be reached: {error.strerror or type(error).__name__}")
            return
        self._dialling = None
        if suspects:
            suspects.reached(replica.id)
        self._write(connection)

    def _write(self, connection: Connection) -> None:
        assert self._outgoing is not None and self._replica is not None
        self._connection = connection
        message = self._outgoing.encode(self._gateway.pool(self._replica))
        connection.send(message, self, head_request=self._call.method == "HEAD")
        self._sent_at = self._gateway.clock()

    def _failed(self, reason: str, *, same: bool = False) -> None:
        """A replica gave no byte of an answer: another gets the request, or the same one over a fresh connection."""
        replica = self._replica
        if replica is None or self._endpoint is None:
            return
        self._connection = None
        if same:
            self._dialling = self._gateway.loop.create_task(self._dial(replica))
            return
        budget, now = self._gateway.budget(self._endpoint.name), self._gateway.clock()
        self._gateway.admission.suspects.failed(replica.id, now)
        budget.died(replica.id, self._gateway.admission.loads[replica.id], now)
        if self._failures + 1 == retries.ATTEMPTS:
            self._failures += 1
            self._broken(f"{retries.ATTEMPTS} replicas failed; the last one {reason}")
        elif budget.take(now):
            self._elsewhere(replica)
        else:
            self._failures += 1
            self._broken(f"The replica {reason}; no other was tried, because too many requests were sent again of late")

    def _elsewhere(self, replica: Replica) -> None:
        assert self._endpoint is not None
        self._failures += 1
        self._tried.add(replica.id)
        self._replica = self._connection = None
        self._gateway.admission.release(replica, self._demand)
        self._gateway.numbers.retries[self._endpoint.name] += 1
        self._seek()

    def _passed_on(self, connection: Connection, *, ended: bool) -> bool:
        """Whether a replica that said *not here* is spared its answer, because another gets the request."""
        replica, endpoint = self._replica, self._endpoint
        if replica is None or endpoint is None or (self._facts is None and self._call.method not in _SAFE):
            return False
        latest = self._gateway.table.endpoints.get(endpoint.name, endpoint)
        others = any(one.id != replica.id and one.id not in self._tried for one in latest.replicas)
        last = not others or self._failures + 1 == retries.ATTEMPTS
        if last or not self._gateway.budget(endpoint.name).take(self._gateway.clock()):
            return False
        if not ended:
            connection.abandon()
        self._elsewhere(replica)
        return True

    def _broken(self, message: str) -> None:
        self._reply(responses.error(502, message, code="replica_failed"), Outcome.UPSTREAM_GONE)

    # from the replica

    def upstream_read(self, connection: Connection, data: bytes, ended: bool) -> None:
        """The replica's answer: its head has come, and more of its body."""
        answer = self._answer
        if answer is None:
            if connection.status in retries.STATUSES and self._passed_on(connection, ended=ended):
                return
            if self._gateway.admission.suspects and self._replica is not None:
                self._gateway.admission.suspects.works(self._replica.id)
            answer = self._answer = self._begin(connection)
            self._outgoing = None  # from here on nothing is sent again: a long stream does not hold its prompt
            self._call = self._call._replace(body=b"")
        if self._replica is not None:
            self._gateway.admission.progress(self._replica, self._demand)
        self._moved_at = now = self._gateway.clock()
        out = answer.take(data, now, ended=ended)
        if out:
            self._client.write(out)
        if not self._written_at:
            self._written_at = self._gateway.clock()
        if ended:
            outcome = Outcome.FAILED if answer.status >= 500 else Outcome.OK
            self._finish(outcome, answer.status, keep=answer.keep)
        elif self._client.blocked:
            connection.pause()

    def upstream_lost(self, connection: Connection, reason: str) -> None:
        """The replica has closed before the end of its answer."""
        answer = self._answer
        if answer is None:
            if self._facts is not None or self._call.method in _SAFE:
                self._failed(reason, same=connection.reused)
            else:
                self._broken(f"The replica {reason}; the request may have been done, so it was not sent again")
            return
        message = f"The replica {reason} before the end of its answer"
        last = answer.broken(message, status=502, code="replica_failed")
        if last:
            self._client.write(last)
        self._finish(Outcome.UPSTREAM_GONE, answer.status, keep=False, cut=not last)

    def _begin(self, connection: Connection) -> Answer:
        assert self._replica is not None and self._endpoint is not None
        reads, drops = self._facts is not None, self._outgoing is not None and self._outgoing.adds_usage
        if self._heartbeat is not None:
            self._heartbeat.stop()
            if self._heartbeat.begun:
                keep = self._client.keeps(self._call)
                return LateAnswer(connection, self._call, keep=keep, reads=reads, drop_usage=drops)
        gateway_seconds = self._sent_at - self._call.completed - self._waited
        revision = self._endpoint.revision(self._replica.revision)
        return Answer(
            connection,
            self._call,
            keep=self._client.keeps(self._call),
            own=local.own_headers(self._id, revision, gateway_seconds, connection.started - self._sent_at, self._waited)
            + (self._claim.head if self._claim is not None else b""),
            reads=reads,
            drop_usage=drops,
        )

    def _early_headers(self) -> bytes:
        """What is known of a held stream when its head has to go out."""
        waited = self._waited + (self._gateway.clock() - self._held_at if self._held_at else 0.0)
        claim = self._claim.head if self._claim is not None else b""
        return local.early_headers(self._id, waited) + claim

    # the end

    def _over_limit(self, seconds: float) -> None:
        if self._ticket is not None:
            self._gateway.admission.cancel(self._ticket)
            self._unavailable(f"No replica had room within the {seconds:g} s that the request allows")
        else:
            self._overdue(f"The answer was not complete within the {seconds:g} s that the request allows")

    def _overdue(self, problem: str) -> None:
        connection, answer = self._connection, self._answer
        if connection is not None:
            connection.abandon()
        if answer is None:
            self._reply(responses.error(504, problem, code="timeout"), Outcome.TIMED_OUT)
            return
        last = b"" if self._client.blocked else answer.broken(problem, status=504, code="timeout")
        if last:
            self._client.write(last)
        self._finish(Outcome.TIMED_OUT, answer.status, cut=not last)

    def _reply(self, response: Response, outcome: Outcome = Outcome.REFUSED) -> None:
        keep = self._client.keeps(self._call)
        if self._heartbeat is not None and self._heartbeat.begun:
            self._heartbeat.fail(json.loads(response.body)["error"])
            self._finish(outcome, response.status, keep=keep and self._call.http_1_1)
            return
        response = response._replace(headers=(*response.headers, ("x-request-id", self._id)))
        self._client.write(response.encode(keep_alive=keep, head_only=self._call.method == "HEAD"))
        self._finish(outcome, response.status, keep=keep)

    def _finish(self, outcome: Outcome, status: int, *, keep: bool = False, cut: bool = False) -> None:
        """Give everything back, exactly once."""
        if self._done:
            return
        self._done = True
        connection, self._connection = self._connection, None
        replica = self._replica
        if self._ticket is not None:
            self._gateway.admission.cancel(self._ticket)
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self._limit is not None:
            self._limit.cancel()
        if self._dialling is not None:
            self._dialling.cancel()
        if connection is not None and outcome is Outcome.CLIENT_GONE:
            connection.abandon()
        if self._endpoint is not None:
            record = self._record(self._endpoint, outcome, status)
            self._gateway.numbers.finish(record)
            if self._claim is not None:
                self._gateway.limits.settle(
                    self._claim, record.prompt_tokens, record.completion_tokens, answered=self._answer is not None
                )
        if replica is not None:
            self._gateway.admission.release(replica, self._demand)
        if cut:
            self._client.abort()
        elif outcome is not Outcome.CLIENT_GONE:
            self._client.finished(keep=keep)

    def _record(self, endpoint: Endpoint, outcome: Outcome, status: int) -> RequestRecord:
        call, facts, answer = self._call, self._facts, self._answer
        end = self._gateway.clock()
        overhead = (
            self._sent_at - call.completed - self._waited if self._sent_at else end - call.completed - self._waited
        )
        prompt = completion = first = last = None
        if answer is not None:
            overhead += self._written_at - answer.started if self._written_at else 0.0
            prompt, completion = answer.usage()
            first, last = answer.first, answer.last
        return RequestRecord(
            id=self._id,
            at=self._gateway.now() - round((end - call.completed) * 1000),
            endpoint=endpoint.name,
            revision=self._replica.revision if self._replica else None,
            replica=self._replica.id if self._replica else None,
            key=self._key.id if self._key else None,
            path=self._route.target if self._route and facts else "",
            status=status,
            stream=facts is not None and facts.stream,
            prompt_tokens=prompt,
            completion_tokens=completion,
            waited=self._waited,
            ttft=None if first is None else first - call.completed,
            itl=itl(first, last, completion),
            e2e=end - call.completed,
            overhead=max(0.0, overhead),
            retries=self._failures,
            outcome=outcome,
            slices=facts.slices if facts else None,
        )
