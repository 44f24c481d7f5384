"""The controller's end of the link to its gateways (decision 10).

Gateways dial a Unix socket and speak newline-delimited JSON: the table goes down as a full snapshot whenever it
changes; in-flight counts and finished records come up every 500 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_LINE_LIMIT = 16 * 1024 * 1024


class GatewayLink:
    """Serves gateways. ``on_wake`` and ``on_records`` are called in the event loop with what a gateway sent."""

    def __init__(
        self,
        path: Path,
        *,
        on_wake: Callable[[str], None],
        on_records: Callable[[Sequence[dict[str, Any]]], None] = lambda _: None,
    ) -> None:
        self._path = path
        self._on_wake = on_wake
        self._on_records = on_records
        self._server: asyncio.Server | None = None
        self._writers: dict[asyncio.StreamWriter, dict[str, Any]] = {}
        self._table: dict[str, Any] | None = None

    async def start(self) -> None:
        """Listen; a socket file left by a dead controller is replaced."""
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, str(self._path), limit=_LINE_LIMIT)
        self._path.chmod(0o600)

    async def close(self) -> None:
        """Hang up; gateways go on with the table they have."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.close()
        self._path.unlink(missing_ok=True)

    def publish(self, table: dict[str, Any]) -> None:
        """Send a table to every gateway, and to those that come later."""
        self._table = table
        for writer in self._writers:
            _send(writer, table)

    def gateways(self) -> list[dict[str, Any]]:
        """What each connected gateway said of itself (``pid``, ``url``)."""
        return [hello for hello in self._writers.values() if hello.get("pid")]

    def in_flight(self, replica: str) -> int:
        """Requests in flight on a replica, over all gateways, as of their last report."""
        total = 0
        for latest in self._writers.values():
            entry = (latest.get("report") or {}).get(replica)
            total += int(entry.get("in_flight", 0)) if isinstance(entry, dict) else 0
        return total

    def held(self, endpoint: str) -> int:
        """Requests that wait in gateways until a replica of an endpoint has room, as of their last report."""
        return sum(int((latest.get("waiting") or {}).get(endpoint, 0)) for latest in self._writers.values())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        latest: dict[str, Any] = {}
        self._writers[writer] = latest
        if self._table is not None:
            _send(writer, self._table)
        try:
            while line := await reader.readline():
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    self._take(latest, json.loads(line))
        except (ConnectionError, ValueError):
            pass  # a gateway that died or sent a line past the limit dials again
        finally:
            del self._writers[writer]
            writer.close()

    def _take(self, latest: dict[str, Any], message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "hello":
            latest.update(pid=message["pid"], url=message["url"])
        elif kind == "report":
            replicas = message.get("replicas") or {}
            latest["report"] = replicas if isinstance(replicas, dict) else {entry["id"]: entry for entry in replicas}
            waiting = message.get("waiting")
            latest["waiting"] = waiting if isinstance(waiting, dict) else {}
            self._on_records(message.get("records") or [])
        elif kind == "wake":
            self._on_wake(str(message["endpoint"]))


def _send(writer: asyncio.StreamWriter, table: dict[str, Any]) -> None:
    if not writer.is_closing():
        writer.write(json.dumps({"type": "table", "table": table}).encode() + b"\n")
