"""What the workers of one gateway tell each other: their numbers, whenever one of them is asked for all.

A connection reaches whichever worker the kernel picks, and a scraper wants the gateway's numbers, not that worker's.
Each worker listens on a Unix socket without a file (an abstract one, unix(7)) that is named after their parent.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

WITHIN = 1.0
"""Seconds that a worker has to say its numbers: far more than it needs, far less than scrapers wait (10 s)."""

_LIMIT = 64 * 1024 * 1024


class Siblings:
    """One worker's way to the others.

    Args:
        family: process id of the parent.
        index: which worker this is, from 0.
        count: how many there are.
    """

    def __init__(self, family: int, index: int, count: int) -> None:
        self._names = [f"\0outrider-gateway-{family}-{number}" for number in range(count)]
        self._own = self._names.pop(index)
        self._server: asyncio.Server | None = None

    async def listen(self, numbers: Callable[[], str]) -> None:
        """Say this worker's numbers to whoever asks.

        Raises:
            OSError: somebody has that name already.
        """

        async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(numbers().encode())
            writer.close()

        place = _socket()
        place.bind(self._own)
        self._server = await asyncio.start_unix_server(say, sock=place)

    def close(self) -> None:
        """Say nothing more."""
        if self._server is not None:
            self._server.close()

    async def ask(self) -> list[str]:
        """The numbers of all others; of one that is just being replaced there are none."""
        answers = await asyncio.gather(*(self._ask(name) for name in self._names))
        return [answer for answer in answers if answer]

    async def _ask(self, name: str) -> str:
        place = _socket()
        try:
            async with asyncio.timeout(WITHIN):
                await asyncio.get_running_loop().sock_connect(place, name)
                reader, writer = await asyncio.open_unix_connection(sock=place, limit=_LIMIT)
                try:
                    return (await reader.read()).decode()
                finally:
                    writer.close()
        except OSError:
            place.close()
            return ""


def _socket() -> socket.socket:
    """uvloop takes names without a file only as sockets."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.setblocking(False)
    return made
