"""``python -m outrider.gateway``: one gateway process.

Serves from the saved table at once, before the controller answers. SIGTERM and SIGINT finish what is in flight.
``--replace PID`` takes over from a running gateway: it listens beside it and then tells it to finish. ``--workers N``
serves with N processes; limits of keys then hold for each of them. A fault of the machine is one line on standard error
and the exit code of its error class.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import signal
import ssl
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import uvloop

from outrider.errors import OutriderError
from outrider.gateway import listening, tls
from outrider.gateway.gateway import LAST_CALL, Gateway
from outrider.gateway.link import Link
from outrider.gateway.workers import Worker, Workers

_COLLECT_AFTER = 20_000
"""Objects made and not freed between two collections (Python: 700). Pauses stay below 1 ms: there is little to find."""

_log = logging.getLogger("outrider.gateway")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until told to stop; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m outrider.gateway", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=8080, help="port to listen on, 0 for a free one (default: %(default)s)"
    )
    parser.add_argument("--controller", type=Path, metavar="SOCKET", help="Unix socket of the controller")
    parser.add_argument("--table", type=Path, metavar="FILE", help="where the last good routing table is kept")
    parser.add_argument(
        "--replace",
        type=int,
        metavar="PID",
        help="process id of the gateway on that port that this one takes over from",
    )
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that share the port (default: %(default)s)"
    )
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate chain (PEM): serve TLS")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key (PEM); SIGHUP reads both again")
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if options.workers < 1:
        parser.error("--workers is at least 1")
    if (options.tls_cert is None) != (options.tls_key is None):
        parser.error("--tls-cert and --tls-key go together")
    try:
        return _share(options) if options.workers > 1 else _work(options, options.port)
    except OutriderError as error:
        print(f"outrider gateway: {error}", file=sys.stderr)
        return error.exit_code


def _share(options: argparse.Namespace) -> int:
    """The parent of several workers. It holds the port and does nothing else.

    Raises:
        PortTaken, PermissionRefused
    """
    with listening.refusals(options.host, options.port):
        if options.port and options.replace is None:
            listening.probe(options.host, options.port)
        place = listening.reserve(options.host, options.port)
    with place:
        port = place.getsockname()[1]
        return Workers(
            options.workers, lambda worker: _work(options, port, worker), lambda: _take_over(options.replace)
        ).run()


def _work(options: argparse.Namespace, port: int, worker: Worker | None = None) -> int:
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(options, port, worker))
    except OutriderError as error:
        print(f"outrider gateway: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _take_over(pid: int | None) -> None:
    """Whoever listened here before may finish."""
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


async def _serve(options: argparse.Namespace, port: int, worker: Worker | None) -> None:
    host, controller = options.host, options.controller
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    _spare_collector()
    context = None
    if options.tls_cert is not None:
        context = tls.context(options.tls_cert, options.tls_key)
        loop.add_signal_handler(signal.SIGHUP, _renew, context, options)
    gateway = Gateway(table_file=options.table, shared=worker.loads if worker is not None else None)
    port = await gateway.start(
        host, port, beside=worker is not None, replaces=worker is None and options.replace is not None, tls=context
    )
    url = f"http{'' if context is None else 's'}://{f'[{host}]' if ':' in host else host}:{port}"
    _log.info("listening on %s, table version %d", url, gateway.table.version)
    if worker is None:
        _take_over(options.replace)
    else:
        await worker.siblings.listen(gateway.exposition)
        gateway.siblings = worker.siblings
        os.write(worker.ready, b".")
        loop.add_reader(worker.lifeline, stop.set)
    linking = None
    if controller is not None:
        link = Link(gateway, controller, url)
        gateway.wake = link.wake
        linking = asyncio.ensure_future(link.run())
    await stop.wait()
    if worker is not None:
        loop.remove_reader(worker.lifeline)
        worker.siblings.close()
    await gateway.stop(last_call=LAST_CALL)
    if linking is not None:
        linking.cancel()
        with suppress(asyncio.CancelledError):
            await linking


def _renew(context: ssl.SSLContext, options: argparse.Namespace) -> None:
    """SIGHUP: certificates are renewed every few weeks, and a connection is no reason not to."""
    try:
        tls.load(context, options.tls_cert, options.tls_key)
    except OutriderError as error:
        _log.error("%s", error)
    else:
        _log.info("certificate read again")


def _spare_collector() -> None:
    """What is loaded by now stays: never look at it again. Requests leave no cycles behind, so look seldom, too."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)


if __name__ == "__main__":
    sys.exit(main())
