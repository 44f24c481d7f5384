"""Warm-up: the requests that must have worked once before users' requests come.

A plain completion and one constrained by a JSON schema, since the grammar path is compiled on its first use; an
embedding where the engine makes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from outrider.app.server import Progress, Report
from outrider.engines.probes import EngineAddress
from outrider.errors import ReplicaFailed

_TIMEOUT = 120.0
_SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}

CHAT: Mapping[str, Any] = {
    "path": "/v1/chat/completions",
    "body": {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8, "temperature": 0},
}
JSON_SCHEMA: Mapping[str, Any] = {
    "path": "/v1/chat/completions",
    "body": {
        "messages": [{"role": "user", "content": "Is the sky blue? Answer in JSON."}],
        "max_tokens": 16,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": _SCHEMA}},
    },
}
EMBEDDING: Mapping[str, Any] = {"path": "/v1/embeddings", "body": {"input": "hello"}}


def default_payloads(*, embeddings: bool) -> tuple[Mapping[str, Any], ...]:
    """What is sent where a ``serve.py`` says nothing else."""
    return (CHAT, JSON_SCHEMA, EMBEDDING) if embeddings else (CHAT, JSON_SCHEMA)


def run(address: EngineAddress, name: str, payloads: Sequence[Mapping[str, Any]], report: Report) -> None:
    """Send each payload once and look at the answer.

    Raises:
        ReplicaFailed: an error status, an empty answer, or JSON that does not follow its schema.
    """
    for number, payload in enumerate(payloads, 1):
        report(Progress(f"warm-up request {number} of {len(payloads)}"))
        try:
            answer = address.call(payload["path"], {"model": name, **payload["body"]}, timeout=_TIMEOUT)
        except OSError as error:
            raise ReplicaFailed(f"Warm-up request {number} got no answer", why=str(error)) from error
        _check(number, payload, answer)


def _check(number: int, payload: Mapping[str, Any], answer: Any) -> None:
    if payload["path"].endswith("/embeddings"):
        good = bool(answer.get("data") and answer["data"][0].get("embedding"))
    else:
        choice = (answer.get("choices") or [{}])[0]
        text = (choice.get("message") or {}).get("content") or choice.get("text") or ""
        good = bool(answer.get("usage", {}).get("completion_tokens"))
        if good and "response_format" in payload["body"]:
            good = _follows_schema(text)
    if not good:
        raise ReplicaFailed(
            f"Warm-up request {number} got a wrong answer", why=json.dumps(answer)[:300], remedy="See the engine's log."
        )


def _follows_schema(text: str) -> bool:
    # The body's schema is the user's to change, so only what every schema promises is checked: it is JSON.
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
