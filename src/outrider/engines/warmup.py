"""Warm-up: the requests that must have worked once before users' requests come.

A plain completion, and one constrained by a JSON schema, since grammars are compiled on their first use and broken ones
show only there; a tool call, an image and the prefix that requests share where there are such; an embedding where the
engine makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from outrider.app.server import Progress, Report
from outrider.engines.probes import EngineAddress, completion_text, embedding, structured_value, tool_call
from outrider.errors import InvalidInput, ReplicaFailed

TIMEOUT = 120.0
"""Seconds that one warm-up request may take (120: the first may compile kernels; ``startup_timeout`` bounds all)."""

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
        # A grammar allows white space, on which a small model may spend some tokens before the value ends.
        "max_tokens": 128,
        "temperature": 0,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": _SCHEMA},
        },
    },
}
EMBEDDING: Mapping[str, Any] = {"path": "/v1/embeddings", "body": {"input": "hello"}}
_TOOL = "report"
TOOL_CALL: Mapping[str, Any] = {
    "path": "/v1/chat/completions",
    "body": {
        "messages": [{"role": "user", "content": "Report that all is well."}],
        "max_tokens": 128,
        "temperature": 0,
        "tools": [
            {
                "type": "function",
                "function": {"name": _TOOL, "description": "Report a state.", "parameters": _SCHEMA},
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": _TOOL}},
    },
}
_GREY = (
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAAAAACPAi4CAAAAKUlEQVR42u3MQREAAAwCIKMb3RD77SAA6VEEAoFAIBAIBAKBQCAQ"
    "fA8G320AeXC6efoAAAAASUVORK5CYII="
)
"""A PNG of 64 × 64 grey pixels: no less than a patch of any model's vision tower."""
IMAGE: Mapping[str, Any] = {
    "path": "/v1/chat/completions",
    "body": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_GREY}"}},
                    {"type": "text", "text": "Name the colour."},
                ],
            }
        ],
        "max_tokens": 8,
        "temperature": 0,
    },
}


def default_payloads(
    *, tools: bool = False, images: bool = False, embeddings: bool = False, shared_prefix: str | None = None
) -> tuple[Mapping[str, Any], ...]:
    """What is sent where a ``serve.py`` says nothing else: text, JSON schema, a tool call where the engine takes tools,
    an image where the model takes some, an embedding where the engine makes them, and the prefix that requests share,
    last, so that it is the one that stays in the prefix cache."""
    further = ((TOOL_CALL, tools), (IMAGE, images), (EMBEDDING, embeddings))
    prefix = (_prefix(shared_prefix),) if shared_prefix else ()
    return (CHAT, JSON_SCHEMA, *(payload for payload, wanted in further if wanted), *prefix)


def without_grammar(payloads: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Those that an engine answers which takes no grammar: no JSON schema, and no tool that must be called."""
    return tuple(one for one in payloads if not {"response_format", "tools"} & one.get("body", {}).keys())


def _prefix(text: str) -> Mapping[str, Any]:
    messages = [{"role": "system", "content": text}, {"role": "user", "content": "Hello."}]
    return {"path": "/v1/chat/completions", "body": {"messages": messages, "max_tokens": 1, "temperature": 0}}


def check_payloads(payloads: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """The payloads as they came. Raises InvalidInput unless each is ``{"path": "/v1/…", "body": {…}}``."""
    for number, payload in enumerate(payloads, 1):
        path, body = payload.get("path"), payload.get("body")
        if set(payload) != {"path", "body"} or not isinstance(path, str) or not path.startswith("/"):
            raise InvalidInput(f"Warm-up payload {number} is none", remedy='Write {"path": "/v1/…", "body": {…}}.')
        if not isinstance(body, Mapping):
            raise InvalidInput(f"Warm-up payload {number} has no body", remedy='Write {"path": "/v1/…", "body": {…}}.')
    return tuple(payloads)


def run(address: EngineAddress, name: str, payloads: Sequence[Mapping[str, Any]], report: Report) -> None:
    """Send each payload once, as the served model ``name``, and look at the answer.

    Raises:
        ReplicaFailed: no answer, an error status, an empty answer, or JSON that does not follow its schema.
    """
    for number, payload in enumerate(payloads, 1):
        report(Progress(f"warm-up request {number} of {len(payloads)}"))
        try:
            answer = address.json(payload["path"], {"model": name, **payload["body"]}, timeout=TIMEOUT)
            _check(payload, answer)
        except OSError as error:
            raise ReplicaFailed(
                f"Warm-up request {number} got no answer", why=str(error), remedy="See the engine's log."
            ) from error
        except ReplicaFailed as error:
            raise ReplicaFailed(
                f"Warm-up request {number} failed: {error.what}", why=error.why, remedy=error.remedy
            ) from error


def _check(payload: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
    if payload["path"].endswith("/embeddings"):
        embedding(answer)
        return
    if "tools" in payload["body"] and isinstance(payload["body"].get("tool_choice"), Mapping):
        tool_call(answer, payload["body"]["tool_choice"]["function"]["name"])
        return
    wanted = payload["body"].get("response_format")
    if isinstance(wanted, Mapping) and wanted.get("type") in ("json_schema", "json_object"):
        structured_value(answer, wanted.get("json_schema", {}).get("schema", {}))
    elif payload["path"].endswith("/completions"):
        completion_text(answer)
