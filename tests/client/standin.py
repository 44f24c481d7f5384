"""A real HTTP server, on a Unix socket or TCP, that answers what a test tells it and remembers what it was asked."""

from __future__ import annotations

import json
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from outrider.errors import OutriderError


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Answer:
    """One answer; ``chunks`` are sent one by one and the connection closed after them."""

    status: int = 200
    body: bytes = b""
    kind: str = "application/json"
    chunks: list[bytes] | None = None


Respond = Callable[[Asked], Any]
"""Gives an Answer, JSON data, or raises the OutriderError to answer."""


@dataclass
class Standin:
    """What the tests see of the server."""

    respond: Respond
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    def calls(self) -> list[str]:
        """``METHOD /path`` of every request so far."""
        return [f"{request.method} {request.path}" for request in self.asked]


class _Quiet(socketserver.BaseServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may close as soon as it has what it needs; anything else is told."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _UnixServer(_Quiet, socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class _TcpServer(_Quiet, ThreadingHTTPServer):
    pass


@contextmanager
def serving(respond: Respond, socket: Path | None = None) -> Iterator[Standin]:
    """Serve until the block ends."""
    standin = Standin(respond)

    class Handler(_Handler):
        seen = standin

    server: socketserver.BaseServer
    if socket is None:
        tcp = _TcpServer(("127.0.0.1", 0), Handler)
        standin.url = f"http://127.0.0.1:{tcp.server_port}"
        server = tcp
    else:
        server = _UnixServer(str(socket), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield standin
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    seen: Standin
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(self.command, parts.path, query, headers, json.loads(raw) if raw else None)
        self.seen.asked.append(asked)
        try:
            found = self.seen.respond(asked)
        except OutriderError as error:
            body = json.dumps(error.problem()).encode()
            found = Answer(error.status, body, "application/problem+json")
        answer = found if isinstance(found, Answer) else Answer(body=json.dumps(found).encode())
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.close_connection = True
        self.send_header("Connection", "close")
        if answer.chunks is None:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if answer.body:
            self.wfile.write(answer.body)
        for chunk in answer.chunks or []:
            self.wfile.write(chunk)
            self.wfile.flush()

    do_GET = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""
