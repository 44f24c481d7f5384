"""A client that sends exactly the bytes it is told to, and a gateway to send them to."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from outrider.gateway.gateway import Gateway
from tests.gateway.standin import Standin

DIGEST = "0123456789abcdef" * 4


def key(secret: str, **fields: Any) -> dict[str, Any]:
    """A key of the table."""
    entry: dict[str, Any] = {
        "id": f"key-{secret}",
        "name": secret,
        "hash": hashlib.sha256(secret.encode()).hexdigest(),
        "endpoints": None,
        "scopes": ["inference"],
        "limits": {},
        "expires_at": None,
    }
    return {**entry, **fields}


def table(
    replicas: Sequence[Standin | str] = (),
    *,
    name: str = "tiny",
    version: int = 1,
    capacity: int | None = None,
    keys: Sequence[Mapping[str, Any]] = (),
    **endpoint: Any,
) -> dict[str, Any]:
    """A table of one endpoint with these replicas."""
    urls = [one if isinstance(one, str) else one.url for one in replicas]
    entry: dict[str, Any] = {
        "name": name,
        "task": "generate",
        "created": 1_700_000_000,
        "unauthenticated": False,
        "state": "ready" if urls else "starting",
        "reason": None,
        "revisions": [{"number": 2, "digest": DIGEST, "weight": 100}],
        "max_concurrency": capacity,
    }
    return {
        "epoch": "e1",
        "version": version,
        "require_keys": bool(keys),
        "endpoints": [{**entry, **endpoint}],
        "replicas": [
            {"id": f"r{index}", "endpoint": name, "revision": 2, "url": url, "key": "engine-key", "capacity": capacity}
            for index, url in enumerate(urls)
        ],
        "keys": list(keys),
    }


@dataclass
class Reply:
    """An answer; ``body`` is out of its chunks."""

    status: int
    headers: dict[str, str]
    body: bytes
    complete: bool = True

    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


class Wire:
    """One connection to a gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes, *, one_by_one: bool = False) -> None:
        """Send bytes, if wanted in as many segments."""
        for piece in [data[i : i + 1] for i in range(len(data))] if one_by_one else [data]:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def reply(self, *, head_only: bool = False) -> Reply:
        """Read one answer, which must come within 30 s."""
        async with asyncio.timeout(30):
            return await self._reply(head_only)

    async def _reply(self, head_only: bool) -> Reply:
        head = await self.reader.readuntil(b"\r\n\r\n")
        line, *rest = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        status = int(line.split()[1])
        headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
        if head_only or status in (100, 204, 304):
            return Reply(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            pieces, complete = [], True
            while True:
                try:
                    piece = await self.chunk()
                except (asyncio.IncompleteReadError, ConnectionError):
                    complete = False
                    break
                if not piece:
                    break
                pieces.append(piece)
            return Reply(status, headers, b"".join(pieces), complete)
        if "content-length" in headers:
            try:
                return Reply(status, headers, await self.reader.readexactly(int(headers["content-length"])))
            except (asyncio.IncompleteReadError, ConnectionError):
                return Reply(status, headers, b"", complete=False)
        return Reply(status, headers, await self.reader.read())

    async def chunk(self) -> bytes:
        """One chunk of a chunked body."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        data = await self.reader.readexactly(size + 2)
        return data[:-2]

    async def closed(self) -> bool:
        """Wait until the gateway closes, within 30 s; False where it sends something more."""
        try:
            async with asyncio.timeout(30):
                return await self.reader.read() == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """Hang up."""
        self.writer.close()


def post(path: str, body: Any, *headers: str, close: bool = False) -> bytes:
    """A POST with JSON, or with bytes as they are."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: gateway", "Content-Type: application/json", f"Content-Length: {len(data)}"]
    lines += [*headers, *(["Connection: close"] if close else [])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def chat(*headers: str, **fields: Any) -> bytes:
    """A chat request to the endpoint ``tiny``."""
    body = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}], **fields}
    return post("/v1/chat/completions", body, *headers)


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    """A request without a body."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: gateway", *headers]).encode() + b"\r\n\r\n"


@dataclass
class Served:
    """A gateway that listens."""

    gateway: Gateway
    port: int

    @asynccontextmanager
    async def wire(self) -> AsyncIterator[Wire]:
        """A connection to it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=64 * 1024 * 1024)
        try:
            yield Wire(reader, writer)
        finally:
            writer.close()

    async def ask(self, data: bytes, *, head_only: bool = False) -> Reply:
        """One request over a connection of its own."""
        async with self.wire() as wire:
            await wire.send(data)
            return await wire.reply(head_only=head_only)

    def idle(self) -> bool:
        """Whether nothing is counted as in flight or waiting."""
        admission = self.gateway.admission
        return not admission.loads and not admission.outstanding and not admission.waiting()


@asynccontextmanager
async def serving(data: dict[str, Any] | None = None, **settings: Any) -> AsyncIterator[Served]:
    """A gateway with a table, on a free port; afterwards nothing may be left in flight."""
    gateway = Gateway(**settings)
    port = await gateway.start("127.0.0.1", 0)
    if data is not None:
        assert gateway.use(data)
    served = Served(gateway, port)
    try:
        yield served
    finally:
        await gateway.stop(grace=0)
    await asyncio.sleep(0)
    assert served.idle(), (gateway.admission.loads, gateway.admission.waiting())


async def until(condition: Any) -> None:
    """Let the event loop turn until a condition holds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
