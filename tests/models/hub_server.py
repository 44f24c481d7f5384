"""A hub on loopback: enough of the Hugging Face hub's HTTP for its client, with ranges, and a way to break off."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """Serves ``files`` as ``org/model``; ``break_at`` cuts, ``hold_at`` stops the next download."""

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.break_at: int | None = None
        self.hold_at: int | None = None
        self.go_on = Event()
        self.downloads: list[tuple[str, str | None]] = []
        self.authorizations: list[str | None] = []
        self.status: int | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        if self.server.status is not None:
            self._send(self.server.status, b"", {"X-Error-Code": "GatedRepo", "X-Error-Message": "accept its licence"})
        elif path.startswith("/api/models/org/model"):
            self._send(200, json.dumps(self._api(path)).encode(), {"Content-Type": "application/json"})
        elif path.startswith("/org/model/resolve/"):
            revision, _, name = path.removeprefix("/org/model/resolve/").partition("/")
            content = self.server.files.get(name)
            if revision not in ("main", COMMIT):
                self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
            elif content is None:
                self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
            else:
                self._file(name, content, body)
        else:
            self._send(404, b"", {"X-Error-Code": "RepoNotFound"})

    def _api(self, path: str) -> object:
        entries = [
            {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
            for name, content in self.server.files.items()
        ]
        if "/tree/" in path:
            return entries
        siblings = [{"rfilename": name, "size": len(content)} for name, content in self.server.files.items()]
        return {"_id": "1", "id": "org/model", "sha": COMMIT, "private": False, "tags": [], "siblings": siblings}

    def _file(self, name: str, content: bytes, body: bool) -> None:
        wanted = self.headers.get("Range")
        start = int(wanted.removeprefix("bytes=").partition("-")[0]) if wanted else 0
        headers = {"ETag": f'"{hashlib.sha1(content).hexdigest()}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if wanted:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        if body:
            self.server.downloads.append((name, wanted))
            self.server.authorizations.append(self.headers.get("Authorization"))
        self._send(206 if wanted else 200, content[start:], headers, body=body)

    def _send(self, status: int, content: bytes, headers: dict[str, str], *, body: bool = True) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not body or self.command == "HEAD":
            return
        cut = self.server.break_at
        if cut is not None and len(content) > cut:
            self.server.break_at = None
        else:
            cut = None
        if self.server.hold_at is not None and len(content) > self.server.hold_at:
            hold, self.server.hold_at = self.server.hold_at, None
            self.wfile.write(content[:hold])
            self.server.go_on.wait(60)
            self.close_connection = True
            return
        self.wfile.write(content if cut is None else content[:cut])
        if cut is not None:
            self.close_connection = True


@contextmanager
def serve(files: dict[str, bytes]) -> Iterator[Hub]:
    """A hub while the context is entered."""
    hub = Hub(files)
    thread = Thread(target=hub.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        thread.join()
        hub.server_close()
