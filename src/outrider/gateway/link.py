"""The gateway's end of the link to the controller (decision 10): newline-delimited JSON over a Unix socket.

The gateway serves without it: tables come when they come, and what the controller has not heard of is kept for it.

Up:
    ``{"type": "hello", "epoch", "version", "pid", "url"}`` once, with the table in use;
    ``{"type": "report", "replicas": {ID: {"in_flight", "prompt_tokens", "completion_tokens"}},
    "waiting": {ENDPOINT: n}, "records": […]}`` every 500 ms; ``{"type": "wake", "endpoint"}`` at once.
Down:
    ``{"type": "table", "table": {…}}``.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from outrider.gateway.gateway import Gateway

_log = logging.getLogger(__name__)

REPORT_EVERY = 0.5
"""Seconds between reports: half of the autoscaler's step."""

_LINE_LIMIT = 16 * 1024 * 1024
_BATCH = 1000
_STEP = 32
"""Records written out at a time, some 0.1 ms of work: requests are served in between."""

_FIRST_DELAY = 0.1
_LAST_DELAY = 5.0


class Link:
    """Dials the controller, again and again, until it is cancelled.

    Args:
        gateway: whose table it swaps and whose numbers it reports.
        path: the controller's socket.
        url: where the gateway itself can be reached.
        sleep: ``asyncio.sleep``.
    """

    def __init__(
        self, gateway: Gateway, path: Path, url: str, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._gateway = gateway
        self._path = path
        self._url = url
        self._sleep = sleep
        self._writer: asyncio.StreamWriter | None = None

    async def run(self) -> None:
        """Connect, serve the connection until it breaks, wait (0.1 s, doubling up to 5 s), and again."""
        delay = _FIRST_DELAY
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(str(self._path), limit=_LINE_LIMIT)
            except OSError:
                await self._sleep(delay)
                delay = min(delay * 2, _LAST_DELAY)
                continue
            delay = _FIRST_DELAY
            try:
                await self._serve(reader, writer)
            except OSError:
                pass  # as good as an end of file: the controller is gone
            except ValueError as error:
                _log.error("the controller sent something unreadable: %s", error)
            finally:
                self._gateway.connected = False
                self._writer = None
                writer.close()
            await self._sleep(delay)

    def wake(self, endpoint: str) -> None:
        """Tell the controller at once that somebody waits for an endpoint."""
        self._tell({"type": "wake", "endpoint": endpoint})

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        table = self._gateway.table
        self._tell(
            {"type": "hello", "epoch": table.epoch, "version": table.version, "pid": os.getpid(), "url": self._url}
        )
        self._gateway.connected = True
        for endpoint in self._gateway.admission.waiting():
            self.wake(endpoint)
        reporting = asyncio.ensure_future(self._report(writer))
        try:
            while line := await reader.readline():
                message = msgspec.json.decode(line)
                if isinstance(message, dict) and message.get("type") == "table":
                    self._gateway.use(message.get("table"))
        finally:
            reporting.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await reporting

    async def _report(self, writer: asyncio.StreamWriter) -> None:
        while True:
            records = b",".join(await self._records())
            if not writer.is_closing():
                line = msgspec.json.encode(self._state())
                writer.write(b'%b,"records":[%b]}\n' % (line[:-1], records))
            await writer.drain()
            if len(self._gateway.numbers.records) < _BATCH:
                await self._sleep(REPORT_EVERY)

    async def _records(self) -> list[bytes]:
        """What has finished since the last report, as pieces of a JSON list: handed over and no longer kept."""
        numbers = self._gateway.numbers
        taken = numbers.take_records(_BATCH)
        pieces: list[bytes] = []
        for start in range(0, len(taken), _STEP):
            step = [record.as_dict() for record in taken[start : start + _STEP]]
            pieces.append(msgspec.json.encode(step)[1:-1])
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                numbers.records.extendleft(reversed(taken))  # the link broke: the next report has them
                raise
        return pieces

    def _state(self) -> dict[str, Any]:
        gateway = self._gateway
        tokens = gateway.numbers.tokens()
        loads = gateway.admission.loads
        replicas = {}
        for replica in gateway.table.replicas.keys() | loads.keys():
            prompt, completion = tokens.get(replica, (0, 0))
            replicas[replica] = {
                "in_flight": loads.get(replica, 0),
                "prompt_tokens": prompt,
                "completion_tokens": completion,
            }
        return {
            "type": "report",
            "replicas": replicas,
            "waiting": gateway.admission.waiting(),
        }

    def _tell(self, message: dict[str, Any]) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(msgspec.json.encode(message) + b"\n")
