"""Outrider's gateway with everything on, started as ``outrider up`` starts it: one process.

A key is required and has limits, the endpoint has two replicas with their own key and a bound on what each may hold,
prompts are routed by prefix, metrics are kept, and the record of every request goes up the link to a controller
(``controller.py``: it reads them and throws them away).
"""

from __future__ import annotations

import hashlib
import json
import sys

from benchmarks.gateway.engine import MODEL
from benchmarks.gateway.peers import KEY, Command, Place

from outrider._version import __version__

NAME = "outrider"
INSTALL = ""


def version() -> str | None:
    """This checkout's."""
    return __version__


def command(place: Place) -> Command:
    """Writes the routing table that a controller would push."""
    table = place.directory / "table.json"
    table.write_text(json.dumps(_table(place)))
    argv = [sys.executable, "-m", "outrider.gateway", "--host", "127.0.0.1", "--port", str(place.port)]
    return [*argv, "--table", str(table), "--controller", str(place.directory / "controller.sock")], {}


def _table(place: Place) -> dict[str, object]:
    endpoint = {
        "name": MODEL,
        "task": "generate",
        "created": 1_700_000_000,
        "unauthenticated": False,
        "state": "ready",
        "revisions": [{"number": 1, "digest": "d" * 64, "weight": 1.0}],
        "max_concurrency": 256,
    }
    replicas = [
        {"id": f"{MODEL}-1-{i}", "endpoint": MODEL, "revision": 1, "url": url, "key": f"engine-key-{i}"}
        for i, url in enumerate(place.workers)
    ]
    key = {
        "id": "key-1",
        "name": "bench",
        "hash": hashlib.sha256(KEY.encode()).hexdigest(),
        "endpoints": [MODEL],
        "scopes": ["inference"],
        "limits": {"requests_per_minute": 10**9, "tokens_per_minute": 10**12, "budget_tokens": 10**15},
        "expires_at": None,
    }
    return {
        "epoch": "bench",
        "version": 1,
        "require_keys": True,
        "endpoints": [endpoint],
        "replicas": replicas,
        "keys": [key],
    }
