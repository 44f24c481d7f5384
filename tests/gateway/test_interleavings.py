"""A real gateway and real sockets, under any order of arrivals, answers, deaths, departures and tables."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from random import Random
from typing import Any, TypeVar

import uvloop
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.gateway.client import Reply, Wire, chat, get, serving, table, until
from tests.gateway.standin import DONE, STREAM_HEAD, Asked, Standin, chunk, content

CAPACITY = 2
ENGINES = 3
T = TypeVar("T")


class Held:
    """A request at an engine, until the machine says what becomes of it."""

    def __init__(self, engine: int, asked: Asked, writer: asyncio.StreamWriter) -> None:
        self.engine = engine
        self.number = asked.headers["x-n"]
        self.stream = bool(json.loads(asked.body).get("stream"))
        self.begun = False
        self.over = asyncio.Event()
        self.writer = writer

    def begin(self) -> None:
        """The first byte, of an answer that is not whole."""
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
        self.writer.write(STREAM_HEAD + chunk(content(self.number)) if self.stream else head)
        self.begun = True

    def end(self) -> None:
        """The rest."""
        if not self.begun:
            self.begin()
        self.writer.write(chunk(DONE) + chunk(b"") if self.stream else self.number.encode())
        self.over.set()

    def abort(self) -> None:
        """A reset in the place of the rest."""
        self.writer.transport.abort()


class Client:
    """A client and what it got."""

    def __init__(self, number: int, stream: bool, wire: Wire) -> None:
        self.number = f"{number:03}"
        self.stream = stream
        self.wire = wire
        self.reading = asyncio.ensure_future(self._read())

    async def _read(self) -> Reply | None:
        try:
            return await self.wire.reply()
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    def check(self) -> None:
        """Its answer is its own, and whole or evidently not."""
        reply = self.reading.result()
        if reply is None or not reply.complete:
            assert not self.stream or reply is None
        elif reply.status == 200 and self.stream:
            assert content(self.number) in reply.body
            assert reply.body.endswith(DONE) or b"replica_failed" in reply.body
        elif reply.status == 200:
            assert reply.body == self.number.encode()
        else:
            assert reply.status in (502, 503) and reply.json()["error"]["message"]


class Machine(RuleBasedStateMachine):
    """After each step the loop turns until every request is where it belongs; then all counts must agree."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = uvloop.new_event_loop()
        self.clients: list[Client] = []
        self.held: list[Held] = []
        self.arrived = self.version = 0
        self.stack = AsyncExitStack()
        self.engines = [Standin(f"engine-{index}", play=self.play) for index in range(ENGINES)]
        self.up = set(range(ENGINES))
        self.run(self.start())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    async def start(self) -> None:
        for engine in self.engines:
            await engine.__aenter__()
        self.served = await self.stack.enter_async_context(serving(rng=Random(1), clock=lambda: 1.0))
        await self.use(range(2))

    async def play(self, standin: Standin, asked: Asked, writer: asyncio.StreamWriter) -> None:
        held = Held(self.engines.index(standin), asked, writer)
        self.held.append(held)
        try:
            await held.over.wait()
        finally:
            self.held.remove(held)

    async def use(self, engines: Any) -> None:
        self.version += 1
        data = table([self.engines[index] for index in engines], capacity=CAPACITY, version=self.version)
        for replica, index in zip(data["replicas"], engines, strict=True):
            replica["id"] = f"engine-{index}"
        assert self.served.gateway.use(data)
        await self.settle()

    def settled(self) -> bool:
        admission = self.served.gateway.admission
        open_ = sum(not client.reading.done() for client in self.clients)
        at_engines = Counter(f"engine-{held.engine}" for held in self.held)
        waiting = sum(admission.waiting().values())
        return at_engines == Counter(dict(admission.loads)) and open_ == at_engines.total() + waiting

    async def settle(self) -> None:
        """Nobody is lost on the way, and no count stays behind: else this never comes true."""
        await until(self.settled)
        assert all(0 < load <= CAPACITY for load in self.served.gateway.admission.loads.values())
        assert len({held.number for held in self.held}) == len(self.held)  # nothing is at two engines at once

    @rule(stream=st.booleans())
    def arrive(self, stream: bool) -> None:
        async def work() -> None:
            wire = await self.stack.enter_async_context(self.served.wire())
            client = Client(self.arrived, stream, wire)
            self.arrived += 1
            self.clients.append(client)
            await wire.send(chat(f"X-N: {client.number}", stream=stream))
            await self.settle()

        self.run(work())

    @precondition(lambda self: self.held)
    @rule(data=st.data(), what=st.sampled_from(["begin", "end", "end", "abort"]))
    def engine(self, data: st.DataObject, what: str) -> None:
        held = data.draw(st.sampled_from(sorted(self.held, key=lambda one: one.number)))
        if what == "begin" and held.begun:
            return

        async def work() -> None:
            getattr(held, what)()
            await until(lambda: what == "begin" or held not in self.held)
            await self.settle()

        self.run(work())

    @precondition(lambda self: any(not client.reading.done() for client in self.clients))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from([one for one in self.clients if not one.reading.done()]))

        async def work() -> None:
            client.wire.writer.transport.abort()
            self.clients.remove(client)
            await client.reading
            await self.settle()

        self.run(work())

    @rule(index=st.integers(0, ENGINES - 1))
    def die_or_come_back(self, index: int) -> None:
        async def work() -> None:
            if index in self.up:
                self.up.discard(index)
                await self.engines[index].stop()
            else:
                self.up.add(index)
                await self.engines[index].__aenter__()
            await self.settle()

        self.run(work())

    @rule(engines=st.sets(st.integers(0, ENGINES - 1)))
    def table(self, engines: set[int]) -> None:
        self.run(self.use(sorted(engines)))

    def teardown(self) -> None:
        self.run(self.finish())
        self.loop.close()

    async def finish(self) -> None:
        for index in set(range(ENGINES)) - self.up:
            await self.engines[index].__aenter__()
        await self.use(range(ENGINES))
        while self.held:
            self.held[0].end()
            await until(lambda held=self.held[0]: held not in self.held)
            await self.settle()
        for client in self.clients:
            await client.reading
            client.check()
        assert self.served.idle()
        records = self.served.gateway.numbers.records
        assert len(records) == len({record.id for record in records}) == self.arrived
        metrics = (await self.served.ask(get("/metrics"))).body
        assert all(f'replica="engine-{index}"}} 0\n'.encode() in metrics for index in range(ENGINES))
        await self.stack.aclose()
        for engine in self.engines:
            await engine.stop()


Machine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestGateway = Machine.TestCase
