"""The runner's side of "runner → controller" (decision 3): HTTP on a Unix socket.

``GET /state`` answers the state as JSON; ``POST /drain`` asks the replica to finish its requests and end.
"""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from outrider.app.state import StateFile


class ControlServer(socketserver.ThreadingUnixStreamServer):
    """Serves the control address until :meth:`close`; the socket file goes with it."""

    daemon_threads = True

    def __init__(self, path: Path, state: StateFile, drain: Callable[[], None]) -> None:
        path.unlink(missing_ok=True)
        super().__init__(str(path), _Handler)
        path.chmod(0o600)
        self.path = path
        self.state = state
        self.drain = drain
        threading.Thread(target=self.serve_forever, args=(0.05,), name="control", daemon=True).start()

    def close(self) -> None:
        """Stop answering and remove the socket."""
        self.shutdown()
        self.server_close()
        self.path.unlink(missing_ok=True)


class _Handler(BaseHTTPRequestHandler):
    server: ControlServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/state":
            self._answer(200, self.server.state.state.as_dict())
        else:
            self._answer(404, {"error": "not found"})

    def do_POST(self) -> None:
        if self.path == "/drain":
            self._answer(202, {"draining": True})
            self.server.drain()
        else:
            self._answer(404, {"error": "not found"})

    def address_string(self) -> str:
        return "controller"  # a Unix peer has no address to print

    def log_message(self, format: str, *args: object) -> None:
        return  # polled every second: a line each would fill the log

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
