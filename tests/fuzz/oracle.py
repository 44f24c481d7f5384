"""Whether the gateway took a case well: HTTP came back, and the engine got what the client meant and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import h11

from tests.fuzz.engine import Engine
from tests.fuzz.mutations import Case
from tests.fuzz.reference import Meant, goes_on, read
from tests.fuzz.seeds import CUSTOM, MODEL, post
from tests.gateway.client import Served, key, serving, table, until

PATIENCE = 5.0
"""Seconds until silence counts as hanging; an answer takes a millisecond."""

_ENDS_HERE = frozenset(
    b"connection proxy-connection keep-alive proxy-authenticate proxy-authorization te trailer transfer-encoding "
    b"upgrade host content-length expect authorization x-api-key x-request-id".split()
)
"""Headers that are not passed on: of one hop, of framing, and secrets (RFC 9110 §7.6.1)."""

_REFUSALS = (501, 505)
"""Codings and versions that the gateway does not know: the client's fault, though their numbers are a server's."""

_GATEWAYS_OWN = frozenset({b"host", b"authorization", b"content-length", b"x-request-id"})


class Finding(AssertionError):
    """The gateway took a case badly."""


class Answer(NamedTuple):
    """One answer: its status, the place in ``Engine.asked`` of what it answers (None: the gateway's own)."""

    status: int
    asked: int | None
    last: bool


class Target:
    """A gateway before one strict engine, and what its event loop complained of."""

    def __init__(self, served: Served, engine: Engine, complaints: list[str]) -> None:
        self.served = served
        self.engine = engine
        self.complaints = complaints
        self._reached = 0

    @property
    def asked(self) -> list[Meant]:
        """What reached the engine in the last case."""
        return self.engine.asked[: self._reached]

    async def judge(self, case: Case) -> None:
        """Send a case, read the answers.

        Raises:
            Finding: something is wrong with them, or with what reached the engine.
        """
        meant = read(case.data)
        self.engine.asked.clear()
        try:
            async with asyncio.timeout(PATIENCE):
                answers = await self._answers(case, meant)
                await until(self.served.idle)
        except TimeoutError as error:
            raise Finding(f"no answer within {PATIENCE:g} s; {len(meant)} requests were meant") from error
        except h11.RemoteProtocolError as error:
            if b"HEAD" in case.data:
                return  # the gateway took one for a HEAD that h11 could not read
            raise Finding(f"the answer is not HTTP: {error}") from error
        if self.engine.faults:
            raise Finding(f"the engine got what it cannot read: {self.engine.faults.pop()}")
        if self.complaints:
            raise Finding(f"an exception: {self.complaints.pop()}")
        self._reached = len(self.engine.asked)
        self._compare(meant, answers)
        try:
            async with asyncio.timeout(PATIENCE):
                reply = await self.served.ask(_GOOD)
        except (TimeoutError, OSError, EOFError) as error:
            raise Finding(f"a good request afterwards: {error!r}") from error
        if reply.status != 200:
            raise Finding(f"a good request afterwards: {reply.status} {reply.body[:200]!r}")

    async def _answers(self, case: Case, meant: list[Meant]) -> list[Answer]:
        """Answers to all that was meant; then no more is sent, and whatever still comes is read to the end."""
        async with self.served.wire() as wire:
            with suppress(ConnectionError, RuntimeError):  # closed already: the answer is read below
                for segment in case.segments:
                    await wire.send(segment)
                    await asyncio.sleep(0)
            found: list[Answer] = []
            data = b""
            while not found or not found[-1].last:
                method = meant[len(found)].method if len(found) < len(meant) else ""
                if len(found) == len(meant):
                    with suppress(RuntimeError, OSError):  # closed by the gateway
                        wire.writer.write_eof()
                answer, data = await _next(wire.reader, method, data)
                if answer is None:
                    break
                found.append(answer)
            if data and b"HEAD" not in case.data:  # a refusal may come before it is clear that it was a HEAD
                raise Finding(f"bytes behind the last answer: {data[:200]!r}")
            return found

    def _compare(self, meant: list[Meant], answers: list[Answer]) -> None:
        places = [answer.asked for answer in answers if answer.asked is not None]
        lost = len(answers) < len(meant) and not goes_on(meant[-1])  # who sends on behind a close may be reset
        if places != list(range(len(places) if lost else len(self.engine.asked))):
            raise Finding(f"{len(self.engine.asked)} requests reached the engine, answered were {places}")
        for index, answer in enumerate(answers):
            if answer.asked is None:
                if answer.status >= 500 and answer.status not in _REFUSALS:
                    raise Finding(f"answer {index} is {answer.status}")
                continue
            got = self.engine.asked[answer.asked]
            if index >= len(meant):
                raise Finding(f"nobody meant this to reach the engine: {got}")
            difference = compare(meant[index], got)
            if difference:
                raise Finding(f"{difference}\nmeant: {meant[index]}\ngot:   {got}")
        if len(answers) < len(meant) and not lost and not (answers and answers[-1].last):
            raise Finding(f"{len(answers)} answers to {len(meant)} requests, and a close without a word")


def compare(meant: Meant, got: Meant) -> str:
    """How what the engine got differs from what was meant, beyond what a gateway changes; "" where it does not."""
    if got.method != meant.method:
        return "another method"
    custom = b"/e/%b" % CUSTOM.encode()
    path = meant.target if meant.target.startswith(b"/") else b"/" + meant.target.split(b"/", 3)[-1]
    if not path.startswith(custom):
        wanted = path.partition(b"?")[0].partition(b"#")[0]
    else:
        wanted = path[len(custom) :] if path[len(custom) :].startswith(b"/") else b"/" + path[len(custom) :]
    if got.target not in (wanted, path.partition(b"#")[0][len(custom) :] if path.startswith(custom) else wanted):
        return f"another target: {wanted!r}"
    changed = _body_change(meant.body, got.body)
    if changed:
        return changed
    if len(got.values(b"host")) != 1 or got.values(b"authorization") != [b"Bearer engine-key"]:
        return "the engine's host or key is missing"
    named = {option.strip().lower() for value in meant.values(b"connection") for option in value.split(b",")}
    sent = Counter(header for header in meant.headers if header[0] not in _ENDS_HERE | named)
    arrived = Counter(header for header in got.headers if header[0] not in _GATEWAYS_OWN)
    if got.body != meant.body:
        sent = Counter({one: count for one, count in sent.items() if one[0] != b"accept-encoding"})
    return "" if sent == arrived else f"other headers: lost {sent - arrived}, won {arrived - sent}"


def _body_change(meant: bytes, got: bytes) -> str:
    """Only usage may have been asked for."""
    if meant == got:
        return ""
    try:
        before, after = json.loads(meant), json.loads(got)
        options = after.pop("stream_options")
        before.pop("stream_options", None)
    except (ValueError, LookupError, AttributeError, RecursionError):
        return "another body"
    return "" if repr(before) == repr(after) and options["include_usage"] is True else "another body"


_GOOD = post("/v1/completions", b'{"model":"tiny","prompt":"ok"}')


async def _next(reader: asyncio.StreamReader, method: str, data: bytes) -> tuple[Answer | None, bytes]:
    """The next answer on a connection, and the bytes behind it; None where it ends instead."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 24)
    connection.send(h11.Request(method="HEAD" if method == "HEAD" else "GET", target="/", headers=[("host", "a")]))
    connection.send(h11.EndOfMessage())
    if data:
        connection.receive_data(data)
    head: h11.Response | None = None
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            try:
                data = await reader.read(1 << 16)
            except ConnectionError:
                data = b""
            if not data and head is None and not connection.trailing_data[0]:
                return None, b""
            connection.receive_data(data)
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None
            headers: Mapping[bytes, bytes] = {bytes(name): bytes(value) for name, value in head.headers}
            asked = int(headers[b"x-asked"]) if b"x-asked" in headers else None
            last = headers.get(b"connection", b"").lower() == b"close"
            return Answer(head.status_code, asked, last), connection.trailing_data[0]
        elif isinstance(event, h11.ConnectionClosed):
            return None, b""


@asynccontextmanager
async def target() -> AsyncIterator[Target]:
    """A gateway with two endpoints: one that generates and one that is any HTTP server."""
    complaints: list[str] = []

    def complain(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        complaints.append(f"{context.get('message')}: {context.get('exception')!r}")

    asyncio.get_running_loop().set_exception_handler(complain)
    async with Engine() as engine:
        tiny = table([engine.url], name=MODEL, keys=[key("good")], unauthenticated=True)
        site = table([engine.url], name=CUSTOM, task="custom", unauthenticated=True)
        site["replicas"][0]["id"] = "site"
        tiny["endpoints"] += site["endpoints"]
        tiny["replicas"] += site["replicas"]
        async with serving(tiny, body_limit=1 << 20) as served:
            yield Target(served, engine, complaints)
