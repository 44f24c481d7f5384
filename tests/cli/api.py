"""A small controller for tests of the command line: its endpoint goes through the looks that a test gives it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from outrider.errors import Conflict, EndpointExists, EndpointNotFound, OutriderError
from tests.client.standin import Answer, Asked

Look = dict[str, Any]


def look(
    stage: str = "",
    *,
    status: str = "new",
    state: str = "",
    done: int | None = None,
    total: int = 98_362_432,
    **more: Any,
) -> Look:
    """One EndpointView; ``stage`` "" means that there is no replica."""
    replica = {
        "id": "5f0c8a11d2",
        "endpoint": "small",
        "revision": more.pop("of", 1),
        "stage": stage,
        "detail": more.pop("detail", ""),
        "progress": None if done is None else {"done": done, "total": 98_362_432},
        "pid": 4242,
        "engine_url": None,
        "since": 1_764_000_000_000,
        "created_at": 1_764_000_000_000,
    }
    view: Look = {
        "name": "small",
        "model": "org/Small",
        "task": "generate",
        "state": state or stage or "pending",
        "reason": None,
        "desired": "running",
        "generation": 2,
        "revision": {"number": more.pop("number", 1), "digest": "d" * 64, "status": status},
        "engine": "llamacpp",
        "recipe": "small/llamacpp-cpu",
        "source_edited": False,
        "source": "/home/u/.local/state/outrider/revisions/small/1/serve.py",
        "url": "http://127.0.0.1:8080/v1",
        "replicas": [replica] if stage else [],
        "spec": {"model": "org/Small"},
        "created_at": 1_764_000_000_000,
        "updated_at": 1_764_000_000_000,
    }
    return view | more


READY = look("ready", status="active")


@dataclass
class Api:
    """Answers requests. ``looks`` come one after another, the last again and again."""

    looks: Sequence[Look] = (READY,)
    exists: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)
    keys: list[dict[str, Any]] = field(default_factory=list)
    source: str = "# serve.py\n"
    log: str = "line 1\nline 2\n"
    fails: dict[str, OutriderError] = field(default_factory=dict)
    answers: dict[str, Callable[[Asked], Any]] = field(default_factory=dict)
    stopped: bool = False
    at: int = 0
    provenance: dict[str, Any] = field(default_factory=lambda: {"status": "measured"})

    def __call__(self, asked: Asked) -> Any:
        """Answer one request."""
        path = asked.path.removeprefix("/api/v1")
        call = f"{asked.method} {path}"
        if call in self.fails:
            raise self.fails[call]
        if call in self.answers:
            return self.answers[call](asked)
        if path == "/status":
            return {
                "version": "0.1.0",
                "controller": {"pid": 1, "url": "http://127.0.0.1:8081", "started_at": 0, "home": "/home/u"},
                "gateway": {"pid": 2, "url": "http://127.0.0.1:8080", "connected": True},
                "endpoints": 1,
                "replicas": 1,
            }
        if path == "/endpoints":
            return {"items": [self.looks[-1]] if self.exists else []}
        if path == "/keys":
            return {"items": self.keys}
        if path == "/plans":
            return {"recipe": "small/llamacpp-cpu", "provenance": self.provenance}
        if path == "/deployments":
            self.exists = True
            return self.looks[0]
        if path.startswith("/endpoints/small"):
            return self._endpoint(asked, path.removeprefix("/endpoints/small"))
        raise EndpointNotFound(f"No endpoint {path!r}", remedy="See them with: outrider endpoint list")

    def _endpoint(self, asked: Asked, rest: str) -> Any:
        if asked.method == "PUT":
            if self.exists:
                raise EndpointExists("There is an endpoint 'small' already", remedy="Choose another name.")
            self.exists = True
            return self.looks[0]
        if not self.exists:
            raise EndpointNotFound("No endpoint 'small'", remedy="See them with: outrider endpoint list")
        if asked.method == "DELETE":
            if asked.query.get("purge") != "true":
                raise Conflict("small was not removed", why="only purge destroys", remedy="Say --purge.")
            self.exists = False
            return Answer(204)
        return self._part(rest)

    def _part(self, rest: str) -> Any:
        match rest:
            case "":
                found = self.looks[min(self.at, len(self.looks) - 1)]
                self.at += 1
                return found | {"replicas": []} if self.stopped else found
            case ":stop":
                self.stopped = True
                return self.looks[-1] | {"desired": "stopped"}
            case ":start" | ":rollback":
                return self.looks[0]
            case "/events":
                return {"items": self.events}
            case "/revisions":
                row = {"number": 1, "status": "active", "origin": "planned", "digest": "d" * 64, "reason": None}
                return {"items": [row | {"created_at": 1_764_000_000_000}]}
            case "/replicas/latest/logs":
                return Answer(body=self.log.encode(), kind="text/plain; charset=utf-8")
            case "/revisions/current/source":
                return Answer(body=self.source.encode(), kind="text/x-python; charset=utf-8")
        raise EndpointNotFound(f"No {rest!r}")


def replica_failed(code: str, title: str, *, log: Sequence[str] = (), revision: int = 1) -> dict[str, Any]:
    """The event of a replica that ended with an error."""
    return {
        "id": 3,
        "at": 1_764_000_000_000,
        "endpoint": "small",
        "replica": "5f0c8a11d2",
        "revision": revision,
        "kind": "replica_failed",
        "reason": "",
        "message": f"Replica 5f0c8a11d2 failed: {title}",
        "data": {"error": {"code": code, "title": title, "detail": "why", "remedy": "do this"}, "log": list(log)},
    }
