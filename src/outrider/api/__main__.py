"""The controller process: REST on a Unix socket and on loopback, and the control loop, in one event loop."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from outrider.api.access import KeyedAccess
from outrider.api.app import create_app
from outrider.control.controller import Controller
from outrider.errors import OutriderError
from outrider.placement.discover import discover
from outrider.placement.local import LocalPlacement
from outrider.spec.home import Home
from outrider.store.database import open_database
from outrider.store.keys import Keys


async def _serve(home: Home, port: int) -> None:
    database = open_database(home.store)
    placement = LocalPlacement(home)
    controller = Controller(home, database, placement)
    loop = asyncio.get_running_loop()

    def poke() -> None:
        loop.call_soon_threadsafe(controller.poke)

    app = create_app(
        home,
        database,
        controller,
        placement,
        inventory=lambda: discover(home),
        poke=poke,
        url=f"http://127.0.0.1:{port}",
        started_at=int(time.time() * 1000),
    )
    home.api_socket.unlink(missing_ok=True)
    local = _server(uvicorn.Config(app, uds=str(home.api_socket), log_level="warning", lifespan="off"))
    remote = _server(
        uvicorn.Config(
            KeyedAccess(app, Keys(database)), host="127.0.0.1", port=port, log_level="warning", lifespan="off"
        )
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, controller.leave)
    servers = [asyncio.create_task(server.serve()) for server in (local, remote)]
    try:
        await controller.run()
    finally:
        local.should_exit = remote.should_exit = True
        await asyncio.gather(*servers, return_exceptions=True)
        database.close()
        home.api_socket.unlink(missing_ok=True)


class _QuietServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the controller."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing is captured: the controller drains first."""
        yield


def _server(config: uvicorn.Config) -> uvicorn.Server:
    config.timeout_graceful_shutdown = 2
    return _QuietServer(config)


def main() -> int:
    """Entry point of ``python -m outrider.api``."""
    parser = argparse.ArgumentParser(prog="python -m outrider.api")
    parser.add_argument("--port", type=int, default=8081)
    arguments = parser.parse_args()
    home = Home.from_environment()
    try:
        home.create()
        asyncio.run(_serve(home, arguments.port))
    except OutriderError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
