"""llama.cpp's own OpenAI server, as a process of its own. Run by the engine's interpreter; imports nothing of Outrider.

Usage: ``python llamacpp_serve.py CONFIG.json``. The file (mode 0600, since it holds the key) is
``{"params": {"dotted.name": value}}`` with the names of ``xllamacpp.CommonParams``; an enum is
``{"enum": "type", "members": ["NAME"]}``, and so is a list of enums with ``"list": true``.

The server object has no ``close``: the process is its life. SIGTERM lets requests in flight finish, then ends it; a
second one ends it at once. Exit codes: 0 ended by SIGTERM, 2 unusable parameters, 3 the server did not start (the log
says why), 4 no xllamacpp here, 97 the port is taken.
"""

import json
import os
import re
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

BAD_PARAMETERS = 2
NOT_STARTED = 3
NO_ENGINE = 4
PORT_TAKEN = 97
_BUSY = re.compile(r"^llamacpp:requests_(?:processing|deferred) (\d+)", re.MULTILINE)


def say(line: str) -> None:
    """One line to the log."""
    print(f"llamacpp_serve: {line}", file=sys.stderr, flush=True)


def set_parameter(engine: Any, params: Any, dotted: str, value: Any) -> None:
    """Set one field of the parameters. Raises AttributeError, TypeError or ValueError where it cannot be."""
    target = params
    *path, last = dotted.split(".")
    for name in path:
        target = getattr(target, name)
    current = getattr(target, last)
    if isinstance(value, dict):
        members = [getattr(getattr(engine, value["enum"]), member) for member in value["members"]]
        value = members if value.get("list") else members[0]
    setattr(target, last, set(value) if isinstance(current, set) else value)


def port_is_taken(host: str, port: int) -> bool:
    """Whether the engine could not bind there; it would only say that it did not start."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            say(f"cannot bind {host}:{port}: {error.strerror}")
            return True
    return False


def busy(server: Any) -> bool:
    """Whether requests are running or waiting."""
    return any(int(count) for count in _BUSY.findall(server.handle_metrics()))


def main() -> int:
    """Set the parameters by name, start the server, wait to be ended."""
    # Until the server stands there is nothing to finish, and its constructor holds the interpreter for as long as the
    # model loads, so that no handler could run: the default action is the prompt one.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the runner, which then ends this one
    config = json.loads(Path(sys.argv[1]).read_text())
    try:
        import xllamacpp
    except ImportError as error:
        say(f"xllamacpp cannot be imported: {error}")
        return NO_ENGINE
    params = xllamacpp.CommonParams()
    for dotted, value in config["params"].items():
        try:
            set_parameter(xllamacpp, params, dotted, value)
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            say(f"parameter {dotted} cannot be {value!r}: {error}")
            return BAD_PARAMETERS
    if port_is_taken(params.hostnames[0], params.port):
        return PORT_TAKEN
    try:
        server = xllamacpp.Server(params)
    except (RuntimeError, ValueError) as error:
        say(f"{params.model.path} is not served: {error}")  # llama.cpp's own words may still wait in its log's thread
        return PORT_TAKEN if port_is_taken(params.hostnames[0], params.port) else NOT_STARTED
    wait_for_the_end(server)
    return 0


def wait_for_the_end(server: Any) -> None:
    """Return when SIGTERM came and no request is in flight."""
    leave = threading.Event()

    def on_term(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        leave.set()

    signal.signal(signal.SIGTERM, on_term)
    say(f"listening on {server.listening_address}")
    leave.wait()
    say("ending: no new requests are expected, those in flight are finished")
    never = threading.Event()
    while busy(server):
        never.wait(0.05)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the server's threads have no end of their own
