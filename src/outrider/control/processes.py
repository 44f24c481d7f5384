"""The two processes of one Outrider, controller and gateway: starting what is missing, stopping both.

They are peers: each leads its own session and neither is the other's child. ``run/NAME.pid`` says which process it is
(pid and start time); ``run/up.lock`` keeps two ``up`` from starting the same one twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from outrider.app.state import tail, write_json
from outrider.errors import KeysRequired, MachineFault, OutriderError, PortTaken, Unavailable
from outrider.gateway import tls
from outrider.placement.local import LocalPlacement
from outrider.placement.process import ProcessIdentity, detach, end, recorded, wait_gone
from outrider.spec.home import Home
from outrider.store.database import open_database
from outrider.store.keys import Keys

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_START_TIMEOUT = 20.0
_POLL = 0.02
_SUPERVISION = 0.25
"""Seconds between two looks of ``up --foreground``: a gateway that died is missed by few requests."""
_AFTER_TROUBLE = 1.0
"""Seconds until a failed restart is tried again."""


@dataclass(frozen=True, slots=True)
class Options:
    """Where the two processes listen.

    Attributes:
        host: of the gateway. Beyond loopback only when said, and refused without keys.
        port: of the gateway (8080, what local model servers' users try first).
        api_port: of the controller's REST API and console (8081); always loopback.
        workers: processes of the gateway (1: some thousands of requests a second are more than most engines take).
        tls_cert: PEM file of the gateway's certificate and those that vouch for it; None for plain HTTP.
        tls_key: PEM file of its private key.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    api_port: int = 8081
    workers: int = 1
    tls_cert: Path | None = None
    tls_key: Path | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """What ``ensure_up`` found and did."""

    started: list[str]
    already: list[str]
    gateway_url: str
    api_url: str


def ensure_up(home: Home, options: Options) -> Started:
    """Start what is missing; returns when both answer.

    Raises:
        KeysRequired, PortTaken, PermissionRefused, CertificateUnusable, MachineFault
    """
    home.create()
    with _lock(home):
        _refuse_open_host(home, options)
        missing = [process for process in _processes(home, options) if running(home, process.name) is None]
        for process in missing:  # all before any: a start that is refused leaves nothing behind
            _refuse_taken(process.host, process.port)
        if options.tls_cert is not None and options.tls_key is not None:
            tls.context(options.tls_cert, options.tls_key)
        for process in missing:
            _start(home, process)
        started = [process.name for process in missing]
        already = [name for name in ("controller", "gateway") if name not in started]
        return Started(started, already, saved_url(home, "gateway"), saved_url(home, "controller"))


def running(home: Home, name: str) -> ProcessIdentity | None:
    """The live process of that name, or None."""
    return recorded(home.run / f"{name}.pid")


def take_down(home: Home, timeout: float = 60.0) -> list[str]:
    """Drain and stop every replica, then both processes; the names of what was stopped. Leaves no socket behind."""
    stopped: list[str] = []
    if not home.run.is_dir():
        return stopped
    with _lock(home):
        controller = running(home, "controller")
        if controller is not None:
            controller.signal(signal.SIGTERM)
            if not wait_gone(controller, timeout):
                controller.signal_group(signal.SIGKILL)
            stopped.append("controller")
        stopped += _end_left_replicas(home)
        gateway = running(home, "gateway")
        if gateway is not None:
            end(gateway, grace=35.0)
            stopped.append("gateway")
        for path in (*home.run.glob("*.pid"), home.run / "table.json"):
            path.unlink(missing_ok=True)
        for path in home.sockets.glob("*.sock"):
            path.unlink()
        with contextlib.suppress(OSError):
            home.sockets.rmdir()
    return stopped


def supervise(
    home: Home,
    options: Options,
    *,
    on_change: Callable[[Started], None],
    on_trouble: Callable[[OutriderError], None],
) -> None:
    """``up --foreground``: keep both running until SIGINT or SIGTERM, then take them down.

    Only the first start may fail. Later a fault passes or is mended while this goes on trying: a killed gateway's port,
    for one, stays taken until the last of its threads is gone.

    Raises:
        what :func:`ensure_up` raises, at the first start.
    """
    leave = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: leave.set())
    on_change(ensure_up(home, options))
    told: str | None = None
    while not leave.wait(_SUPERVISION if told is None else _AFTER_TROUBLE):
        try:
            state = ensure_up(home, options)
        except OutriderError as error:
            if str(error) != told:
                on_trouble(error)
            told = str(error)
            continue
        if state.started:
            on_change(state)
        told = None
    take_down(home)


def renew_gateway(home: Home, options: Options) -> Started:
    """Put a new gateway process in the running one's place; what is in flight finishes on the old one.

    The new one listens beside the old one first and then tells it to finish, so no connection meets a closed port.
    Returns once the old one listens no more, so that who comes then gets the new one's TLS. Starts what is missing,
    like :func:`ensure_up`.

    Raises:
        KeysRequired, PortTaken, PermissionRefused, MachineFault: the new one did not start; the old one serves on.
    """
    home.create()
    with _lock(home):
        old = running(home, "gateway")
        if old is not None:
            _refuse_open_host(home, options)
            gateway = next(one for one in _processes(home, options) if one.name == "gateway")
            record = home.run / "gateway.pid"
            before = json.loads(record.read_text())
            try:
                _start(home, replace(gateway, argv=[*gateway.argv, "--replace", str(old.pid)]))
            except MachineFault:
                write_json(record, before)
                raise
            deadline = time.monotonic() + _START_TIMEOUT
            while _is_left(old.pid, int(before["url"].rpartition(":")[2])) and time.monotonic() < deadline:
                time.sleep(_POLL)
    state = ensure_up(home, options)
    return state if old is None else replace(state, started=[*state.started, "gateway"], already=["controller"])


@dataclass(frozen=True, slots=True)
class _Process:
    name: str
    host: str
    port: int
    url: str
    argv: list[str]
    listening: Callable[[int], bool]
    """Whether the process of that id serves."""


def _processes(home: Home, options: Options) -> list[_Process]:
    python = [sys.executable, "-m"]
    api = [*python, "outrider.api", "--port", str(options.api_port)]
    gateway = [*python, "outrider.gateway", "--host", options.host, "--port", str(options.port)]
    gateway += ["--controller", str(home.gateway_socket), "--table", str(home.run / "table.json")]
    gateway += ["--workers", str(options.workers)] if options.workers > 1 else []
    if options.tls_cert is not None and options.tls_key is not None:
        gateway += ["--tls-cert", str(options.tls_cert.absolute()), "--tls-key", str(options.tls_key.absolute())]
    return [
        _Process(
            "controller",
            "127.0.0.1",
            options.api_port,
            _url("http", "127.0.0.1", options.api_port),
            api,
            lambda _: _answers_unix(home.api_socket),
        ),
        _Process(
            "gateway",
            options.host,
            options.port,
            _url("http" if options.tls_cert is None else "https", options.host, options.port),
            gateway,
            lambda pid: _listens(pid, options.port, options.workers),
        ),
    ]


def saved_url(home: Home, name: str) -> str:
    """Where a started process listens, as its pid file says. Raises OSError or ValueError where it says nothing."""
    return str(json.loads((home.run / f"{name}.pid").read_text())["url"])


def _start(home: Home, process: _Process) -> None:
    name, listening = process.name, process.listening
    log = home.run / f"{name}.log"
    env = dict(os.environ, OUTRIDER_HOME=str(home.root), OUTRIDER_CACHE=str(home.cache))
    identity = detach(process.argv, log=log, env=env, cwd=home.root)
    record = {"pid": identity.pid, "started": identity.started, "url": process.url}
    write_json(home.run / f"{name}.pid", record)
    deadline = time.monotonic() + _START_TIMEOUT
    while not listening(identity.pid):
        if not identity.alive() or time.monotonic() > deadline:
            end(identity, grace=1.0)
            (home.run / f"{name}.pid").unlink(missing_ok=True)
            last = (tail(log, 1) or ["it said nothing"])[-1]
            raise MachineFault(f"The {name} did not start", why=last, remedy=f"See {log}.")
        time.sleep(_POLL)


def _end_left_replicas(home: Home) -> list[str]:
    placement = LocalPlacement(home)
    left = placement.adopt()
    for replica in left:
        placement.drain(replica)
    for replica in left:
        if not wait_gone(ProcessIdentity(replica.pid, replica.started), 10.0):
            placement.kill(replica)
        placement.remove(replica)
    return [f"replica {replica.spec.id}" for replica in left]


def _refuse_open_host(home: Home, options: Options) -> None:
    if options.host in _LOOPBACK:
        return
    database = open_database(home.store)
    try:
        live = [key for key in Keys(database).list() if key.revoked_at is None]
    finally:
        database.close()
    if not live:
        raise KeysRequired(
            f"Refused to listen on {options.host} while no key exists",
            why="anybody who reaches this machine could use the endpoints",
            remedy="Run `outrider up` on loopback, make a key with `outrider key create NAME`, then say --host again.",
        )


def _refuse_taken(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortTaken(
                f"Port {port} on {host} is taken",
                why=error.strerror,
                remedy="Choose others: outrider up --port N --api-port M",
            ) from error


def _listens(pid: int, port: int, workers: int) -> bool:
    """Whether that very process listens on a port, or all its workers do: while one gateway follows another, two do."""
    try:
        process = psutil.Process(pid)
        among = [process] if workers == 1 else process.children()
    except psutil.Error:
        return False
    return sum(_has_port(one, port) for one in among) >= workers


def _is_left(pid: int, port: int) -> bool:
    """Whether a process or any of its workers listens on a port still."""
    try:
        process = psutil.Process(pid)
        among = [process, *process.children()]
    except psutil.Error:
        return False
    return any(_has_port(one, port) for one in among)


def _has_port(process: psutil.Process, port: int) -> bool:
    try:
        found = process.net_connections(kind="tcp")
    except psutil.Error:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in found)


def _answers_unix(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True


def _url(scheme: str, host: str, port: int) -> str:
    name = "127.0.0.1" if host == "0.0.0.0" else host
    return f"{scheme}://[{name}]:{port}" if ":" in name else f"{scheme}://{name}:{port}"


@contextmanager
def _lock(home: Home) -> Iterator[None]:
    with (home.run / "up.lock").open("w") as file:
        deadline = time.monotonic() + 2 * _START_TIMEOUT
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unavailable(
                        "Another `outrider up` or `down` is at work", remedy="Wait for it, or end it."
                    ) from None
                time.sleep(_POLL)
        yield
