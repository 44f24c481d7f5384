"""Stands in for the controller: takes what a gateway reports and throws it away.

python -m benchmarks.gateway.controller SOCKET
"""

from __future__ import annotations

import asyncio
import sys

_PIECE = 1 << 20


async def _discard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(_PIECE):
        pass
    writer.close()


async def _serve(path: str) -> None:
    server = await asyncio.start_unix_server(_discard, path)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
